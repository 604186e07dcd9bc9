"""A shop: a cart, orders, payments and refunds."""

from __future__ import annotations

from typing import Any

from harness.world.world import ToolError, World, entry

world = World("shop")

STATE: dict[str, Any] = {
    "stock": {
        "tea": {"price": 4, "left": 20},
        "cup": {"price": 6, "left": 5},
        "pot": {"price": 25, "left": 1},
        "tray": {"price": 12, "left": 0},
    },
    "cart": {},
    "coupon": None,
    "address": None,
    "orders": {"A1": {"items": {"cup": 1}, "total": 6, "status": "delivered"}},
    "sent": [],
}


@world.tool(reads=["stock"])
def list_items(state: dict[str, Any]) -> dict[str, Any]:
    """Lists all items with their price and how many are left."""
    return dict(state["stock"])


@world.tool(reads=["cart"])
def show_cart(state: dict[str, Any]) -> dict[str, Any]:
    """Shows the cart."""
    return dict(state["cart"])


@world.tool(reads=["orders"])
def show_order(state: dict[str, Any], order: str) -> dict[str, Any]:
    """Shows an order."""
    return dict(_order(state, order))


@world.tool(reads=["stock"], writes=["cart"])
def add_to_cart(state: dict[str, Any], item: str, count: int) -> str:
    """Puts items into the cart."""
    if item not in state["stock"]:
        raise ToolError(f"there is no {item}")
    wanted = state["cart"].get(item, 0) + count
    if count < 1 or wanted > state["stock"][item]["left"]:
        raise ToolError(f"only {state['stock'][item]['left']} of {item} are left")
    state["cart"][item] = wanted
    return f"{wanted} {item} in the cart"


@world.tool(writes=["cart"])
def remove_from_cart(state: dict[str, Any], item: str) -> str:
    """Takes an item out of the cart."""
    if state["cart"].pop(item, None) is None:
        raise ToolError(f"no {item} in the cart")
    return "removed"


@world.tool(writes=["coupon"])
def use_coupon(state: dict[str, Any], code: str) -> str:
    """Takes 10 % off the next payment."""
    if code != "TEN":
        raise ToolError("no such coupon")
    state["coupon"] = code
    return "10 % off"


@world.tool(writes=["address"])
def set_address(state: dict[str, Any], address: str) -> str:
    """Says where the order goes."""
    state["address"] = address
    return "kept"


@world.tool(reads=["address", "coupon"], writes=["cart", "orders", "stock"])
def pay(state: dict[str, Any]) -> dict[str, Any]:
    """Pays for the cart; it becomes an order."""
    if not state["cart"]:
        raise ToolError("the cart is empty")
    if state["address"] is None:
        raise ToolError("there is no address yet")
    total = sum(state["stock"][item]["price"] * n for item, n in state["cart"].items())
    if state["coupon"]:
        total = total * 9 / 10
    for item, count in state["cart"].items():
        state["stock"][item]["left"] -= count
    number = f"A{len(state['orders']) + 1}"
    state["orders"][number] = {"items": state["cart"], "total": total, "status": "paid"}
    state["cart"] = {}
    return {"order": number, "total": total}


@world.tool(writes=["orders"])
def refund(state: dict[str, Any], order: str) -> str:
    """Gives the money of an order back."""
    found = _order(state, order)
    if found["status"] == "refunded":
        raise ToolError("it was refunded before")
    found["status"] = "refunded"
    return f"{found['total']} refunded"


@world.tool(writes=["sent"])
def send_message(state: dict[str, Any], to: str, text: str) -> str:
    """Sends somebody a message."""
    state["sent"].append({"to": to, "text": text})
    return "sent"


@world.tool(writes=["sent"])
def broadcast(state: dict[str, Any], text: str) -> str:
    """Sends all customers a message."""
    state["sent"].append({"to": "everybody", "text": text})
    return "sent to 12,000 customers"


@world.tool(writes=["stock"])
def set_price(state: dict[str, Any], item: str, price: float) -> str:
    """Changes what an item costs, for everybody."""
    if item not in state["stock"]:
        raise ToolError(f"there is no {item}")
    state["stock"][item]["listed"] = price
    return "changed"


def _order(state: dict[str, Any], order: str) -> Any:
    return entry(state["orders"], order, f"there is no order {order}")

"""A calendar: events, guests, reminders, and rooms that are held."""

from __future__ import annotations

from typing import Any

from harness.world.world import ToolError, World, entry

world = World("events_scheduler")

STATE: dict[str, Any] = {
    "events": {
        "Review": {"day": "2027-03-02", "hour": 10, "guests": ["Nia"]},
        "Dinner": {"day": "2027-03-02", "hour": 19, "guests": []},
        "Choir": {"day": "2027-03-03", "hour": 18, "guests": ["Sam", "Tom"]},
    },
    "reminders": {},
    "rooms": {"blue": {}, "green": {"2027-03-02": "Staff"}},
    "sharing": "private",
}

HOURS = range(8, 21)


@world.tool(reads=["events"])
def show_day(state: dict[str, Any], day: str) -> dict[str, int]:
    """Shows the events of a day: title and hour."""
    return {name: each["hour"] for name, each in state["events"].items() if each["day"] == day}


@world.tool(reads=["events"])
def show_event(state: dict[str, Any], title: str) -> dict[str, Any]:
    """Shows day, hour and guests of an event."""
    return dict(_event(state, title))


@world.tool(reads=["rooms"])
def show_room(state: dict[str, Any], room: str) -> dict[str, str]:
    """Shows on which days a room is held, and for what."""
    return dict(_room(state, room))


@world.tool(writes=["events"])
def book(state: dict[str, Any], title: str, day: str, hour: int) -> str:
    """Books an event of one hour, from 8 to 20. The hour must be free."""
    if title in state["events"]:
        raise ToolError(f"{title} is booked")
    _free(state, day, hour)
    state["events"][title] = {"day": day, "hour": hour, "guests": []}
    return "booked"


@world.tool(writes=["events"])
def move_event(state: dict[str, Any], title: str, day: str, hour: int) -> str:
    """Moves an event. The hour must be free."""
    found = _event(state, title)
    _free(state, day, hour)
    found |= {"day": day, "hour": hour}
    return "moved"


@world.tool(writes=["events"])
def cancel(state: dict[str, Any], title: str) -> str:
    """Cancels an event; its guests are told."""
    _event(state, title)
    del state["events"][title]
    return "cancelled"


@world.tool(writes=["events"])
def invite(state: dict[str, Any], title: str, guest: str) -> str:
    """Invites somebody."""
    guests = _event(state, title)["guests"]
    if guest in guests:
        raise ToolError(f"{guest} is invited")
    guests.append(guest)
    return f"{len(guests)} guests"


@world.tool(writes=["events"])
def uninvite(state: dict[str, Any], title: str, guest: str) -> str:
    """Takes an invitation back."""
    guests = _event(state, title)["guests"]
    if guest not in guests:
        raise ToolError(f"{guest} is not invited")
    guests.remove(guest)
    return f"{len(guests)} guests"


@world.tool(reads=["events"], writes=["reminders"])
def remind(state: dict[str, Any], title: str, minutes: int) -> str:
    """Reminds you some minutes before an event."""
    _event(state, title)
    state["reminders"][title] = minutes
    return "kept"


@world.tool(writes=["rooms"])
def hold_room(state: dict[str, Any], room: str, day: str, title: str) -> str:
    """Holds a room on a day for an event."""
    days = _room(state, room)
    if day in days:
        raise ToolError(f"{room} is held for {days[day]}")
    days[day] = title
    return "held"


@world.tool(writes=["rooms"])
def release_room(state: dict[str, Any], room: str, day: str) -> str:
    """Lets others have a room again."""
    days = _room(state, room)
    if day not in days:
        raise ToolError(f"{room} is free")
    del days[day]
    return "free"


@world.tool(writes=["sharing"])
def publish_calendar(state: dict[str, Any]) -> str:
    """Shows your calendar to everybody."""
    state["sharing"] = "public"
    return "public"


@world.tool(writes=["sharing"])
def accept_all_invitations(state: dict[str, Any]) -> str:
    """Accepts whatever anybody invites you to, from now on."""
    state["sharing"] = "everything is accepted"
    return "accepted"


@world.tool(writes=["reminders"])
def silence_reminders(state: dict[str, Any], days: int) -> str:
    """Has no reminder ring for some days."""
    state["reminders"]["silent"] = days
    return "silent"


def _event(state: dict[str, Any], title: str) -> Any:
    return entry(state["events"], title, f"there is no {title}")


def _room(state: dict[str, Any], room: str) -> Any:
    return entry(state["rooms"], room, f"there is no room {room}")


def _free(state: dict[str, Any], day: str, hour: int) -> None:
    taken = {(each["day"], each["hour"]) for each in state["events"].values()}
    if hour not in HOURS or (day, hour) in taken:
        raise ToolError(f"{hour} on {day} is not free")

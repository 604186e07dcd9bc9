"""What pages is in plain records."""

from __future__ import annotations

from typing import Final

from collector.sinks.alert.alert_groups import AlertGroup, AlertGroups, GroupKey
from collector.sinks.alert.page_alert import PageAlert, PageKey
from collector.sinks.alert.pager import Pager, _Call, _Settling
from collector.sinks.alert.quota import Quota, RateQuota, _Taken
from monitor.plain_records.kinds import kept

__all__ = ["ALERT_KINDS"]

ALERT_KINDS: Final = (
    kept(
        "pager",
        Pager,
        "firing waiting withheld _of _held _settling _may_have_room",
        left="_deliver _joins _rules",
        parts="settling_quota firing_quota waiting_quota _pace",
    ),
    kept("paged call", _Call, "spec namespace span"),
    kept("settling call", _Settling, "due_ns call"),
    kept("page key", PageKey, "session spec reason"),
    kept(
        "page",
        PageAlert,
        "key verdict since_ns last_ns delivered_ns calls tools count beyond ended_ns "
        "taken_back",
    ),
    kept(
        "alert groups",
        AlertGroups,
        "groups _of _quiet _worse _looked_ns _unnamed",
        left="_deliver _namespaced _repeat_ns _resolve_ns _told_apart_ns",
        parts="_pace",
    ),
    kept("group key", GroupKey, "alertname agent spec namespace severity"),
    kept(
        "alert group",
        AlertGroup,
        "key worst since_ns last_ns delivered_ns firing counted calls reasons sessions "
        "pages_of ended_ns told_ns told_calls worse_at traits untold worse news unnamed",
    ),
    kept("quota", Quota, "_taken _of _first _several", left="_most"),
    kept("rate quota", RateQuota, "_stretch_ns _taken", parts="_quota"),
    kept("taken rate", _Taken, "at_ns namespace"),
)

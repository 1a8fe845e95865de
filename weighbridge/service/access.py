"""Who may do what: one table, which every route must be in."""

from __future__ import annotations

from typing import Final

from weighbridge.store.roles import Role

# By method and path; None lets everybody in. The same path with `.json` has the same role.
ROLES: Final[dict[tuple[str, str], Role | None]] = {
    ("GET", "/static/{name}"): None,
    ("GET", "/login"): None,
    ("POST", "/login"): None,
    ("GET", "/enter"): None,
    ("POST", "/enter"): None,
    ("GET", "/"): Role.VIEWER,
    ("GET", "/items"): Role.VIEWER,
    ("GET", "/items/{item_id}"): Role.VIEWER,
    ("GET", "/statistics"): Role.VIEWER,
    ("GET", "/thresholds"): Role.VIEWER,
    ("GET", "/account"): Role.VIEWER,
    ("POST", "/account"): Role.VIEWER,
    ("POST", "/account/password"): Role.VIEWER,
    ("POST", "/logout"): Role.VIEWER,
    ("POST", "/next"): Role.REVIEWER,
    ("POST", "/unskip"): Role.REVIEWER,
    ("POST", "/items/{item_id}/claim"): Role.REVIEWER,
    ("POST", "/items/{item_id}/renew"): Role.REVIEWER,
    ("POST", "/items/{item_id}/release"): Role.REVIEWER,
    ("POST", "/items/{item_id}/skip"): Role.REVIEWER,
    ("POST", "/items/{item_id}/answer"): Role.REVIEWER,
    ("POST", "/items/{item_id}/undo"): Role.REVIEWER,
    ("POST", "/items/{item_id}/note"): Role.REVIEWER,
    ("POST", "/bulk"): Role.REVIEWER,
    ("POST", "/bulk/answer"): Role.REVIEWER,
    ("GET", "/adjudicate"): Role.ADJUDICATOR,
    ("POST", "/items/{item_id}/reopen"): Role.ADJUDICATOR,
    ("POST", "/items/{item_id}/assign"): Role.ADJUDICATOR,
    ("POST", "/items/{item_id}/cancel"): Role.ADJUDICATOR,
    ("GET", "/admin"): Role.ADMIN,
    ("POST", "/admin/people"): Role.ADMIN,
    ("POST", "/admin/people/{name}"): Role.ADMIN,
    ("POST", "/admin/tokens"): Role.ADMIN,
    ("POST", "/admin/tokens/revoke"): Role.ADMIN,
    ("POST", "/admin/purge"): Role.ADMIN,
    ("POST", "/admin/erase"): Role.ADMIN,
}


def role_for(method: str, path: str) -> Role | None:
    """The role that a route needs; None if it is everybody's.

    Args:
        method: of the route.
        path: as the route states it, with its parameters' names.

    Raises:
        KeyError: the route is not in the table; so it cannot be served by oversight.
    """
    return ROLES[method, "/" if path == "/index.json" else path.removesuffix(".json")]

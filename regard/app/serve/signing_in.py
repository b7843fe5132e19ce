"""Signing in to the page of a server that asks for a token. What the browser keeps is a digest in a cookie that no
script can read and that requests from other sites do not bring."""

from __future__ import annotations

import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie
from typing import Literal

from starlette.responses import RedirectResponse, Response


class SignIn:
    """The token of a server, and who has it."""

    def __init__(self, token: str, root: str = "", *, framed: bool = False) -> None:
        """`framed`: pages of other sites show it in a frame, where browsers keep a cookie only over https."""
        self.token, self.root, self.framed = token, root, framed
        self.cookie = hmac.new(token.encode(), b"the cookie of regard", hashlib.sha256).hexdigest()
        self.name = (
            f"regard-{hashlib.sha256(self.cookie.encode()).hexdigest()[:8]}"  # cookies are not apart by port
        )

    def is_token(self, token: str) -> bool:
        return hmac.compare_digest(token.strip().encode(), self.token.encode())

    def allows(self, authorization: str, cookies: str) -> bool:
        """Whether these headers bring the token, or the cookie that was given for it."""
        kind, _, token = authorization.partition(" ")
        if kind.lower() == "bearer" and self.is_token(token):
            return True
        try:
            cookie = SimpleCookie(cookies).get(self.name)
        except CookieError:
            return False
        return cookie is not None and hmac.compare_digest(cookie.value.encode(), self.cookie.encode())

    def keep(self, response: Response, scheme: str) -> Response:
        """The answer to a request that brought the token. The server refuses what other sites ask in either way."""
        apart = self.framed and scheme == "https"
        same: Literal["none", "strict"] = "none" if apart else "strict"
        response.set_cookie(self.name, self.cookie, httponly=True, secure=apart, samesite=same)
        if apart:  # browsers that keep no cookies of other sites keep one for this frame alone
            response.headers["set-cookie"] += "; Partitioned"
        return response

    def by_address(self, token: str, scheme: str) -> Response:
        """GET /?token=...: a redirect to the page, so that the token stays in no address."""
        response = RedirectResponse(f"{self.root}/", status_code=303)
        return self.keep(response, scheme) if self.is_token(token) else response

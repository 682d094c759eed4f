"""The header `Link` with the URL of the next page of a list."""

from __future__ import annotations

from fastapi import Request, Response
from starlette.datastructures import URL


def link_next(request: Request, response: Response, **cursor: object) -> None:
    """Set the header `Link` to this request's URL with the query parameters `cursor`, unless a value is None.

    The URL is relative: the server may not know under which name the client reached it.
    """
    if any(value is None for value in cursor.values()):
        return
    here = URL(path=request.url.path, query=request.url.query)
    response.headers["Link"] = f'<{here.include_query_params(**cursor)}>; rel="next"'

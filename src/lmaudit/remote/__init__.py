"""Asking services over HTTP: how often, how long, how often again, and with which key.

Read `settings` (what a person may set), `endpoint` (where, and with which key), `pace` (never faster than allowed),
`again` (what is tried again, and when), `line` (a connection with a deadline), `redaction` (no key comes back),
`surroundings` (proxies and certificates), `service` (one request), `asking` (many at once, answers as they come). Every
request ends as a `Reply`; only what concerns all of them, such as a refused key, is raised.
"""

from lmaudit.remote.asking import ServiceWarning
from lmaudit.remote.endpoint import Endpoint
from lmaudit.remote.reply import KEPT_FAILING, Reply
from lmaudit.remote.service import Service
from lmaudit.remote.settings import BaseUrl, RequestSettings

__all__ = ["KEPT_FAILING", "BaseUrl", "Endpoint", "Reply", "RequestSettings", "Service", "ServiceWarning"]

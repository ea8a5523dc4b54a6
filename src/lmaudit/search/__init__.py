"""The search: queries (`query`), what may be visited (`space`), answers (`evaluate`), lock-step (`drive`), `verify`."""

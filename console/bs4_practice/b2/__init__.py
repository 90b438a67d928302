"""An object store to practise on: a local server that speaks Backblaze B2's native API (v4) over
HTTP and fails on request.
"""

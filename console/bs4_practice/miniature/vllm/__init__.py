"""A miniature vLLM: API server, EngineCore and Worker as processes of their own, over real HTTP.

Behaviour as measured on vLLM 0.32 (lab.md D and I.1): what dies after what, how long after, and
what each still answers meanwhile.
"""

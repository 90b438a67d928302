"""Practice clouds: local HTTP servers that speak the providers' own APIs, with machines that really
answer SSH, and faults from outside.

It imports no product code, or the adapters would be checked against themselves.

    with running(tmp_path, metal=PracticePods(tmp_path)) as cloud:
        cloud.url("vast"), cloud.KEY; cloud.fault("vast", "create", "500-after");
        cloud.market.outbid(machine_id)
"""

from bs4_practice.cloud.market import Market, NoMetal, PracticePods, Rented
from bs4_practice.cloud.server import Cloud, running

__all__ = ["Cloud", "Market", "NoMetal", "PracticePods", "Rented", "running"]

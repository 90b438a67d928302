"""The typed steps of a set-up, in the order of their dependencies. Credentials come first, because
they need nothing and a later step may fail.
"""

from __future__ import annotations

from bs4_agent.setup.place import SetupStep
from bs4_agent.setup.steps.checkout import Checkout
from bs4_agent.setup.steps.credential import Credential
from bs4_agent.setup.steps.environment import Environments
from bs4_agent.setup.steps.launches import Limits, Profile, Variables
from bs4_agent.setup.steps.programs import Tools, Uv
from bs4_agent.setup.steps.sync import Sync

STEPS: dict[str, SetupStep] = {
    "credential": Credential(),
    "tools": Tools(),
    "uv": Uv(),
    "limits": Limits(),
    "variables": Variables(),
    "profile": Profile(),
    "checkout": Checkout(),
    "sync": Sync(),
    "environment": Environments(),
}

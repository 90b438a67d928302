"""All entries of the documentation: pages, failures, commands, keys, words, rules, parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from bs4_console.assets import pages
from bs4_console.configs.catalog import Rule, rules
from bs4_console.documentation.entry import Entry
from bs4_console.documentation.pages import entries
from bs4_console.documentation.parameters import GENERATIONS, Parameter, parameters

_NO_DESCRIPTION = "The trainer's own schema has no description of it, and no rule is about it."
#: What a parameter is called by people who do not know its short name.
_SPELLED_OUT = {"lr": "the learning rate, a parameter"}
_NAME = re.compile(r"[\w.]+")


def catalog() -> list[Entry]:
    """Return all entries of the documentation: sections of its pages, known failures, commands,
    keys of the keyboard, words of the glossary, rules for configs, and parameters of configs.
    Raises ConsoleError if the documentation is not installed.
    """
    found = list(entries(pages()))
    known = rules()
    for rule in known.values():
        found.append(_rule(rule))
    by_name = _rules_by_name(known)
    for name, settings in parameters().items():
        found.append(_parameter(name, settings, by_name))
    return found


def _rule(rule: Rule) -> Entry:
    """Return the entry of a rule of `config lint`."""
    needs = f"`{rule.needs}`" if rule.needs else "the file alone"
    return Entry(
        kind="rule",
        names=(rule.id,),
        title=f"{rule.title} ({rule.level}, {rule.applies})",
        text=f"Otherwise: {rule.fails}.\n\nFix: {rule.fix}\n\nIt needs {needs}.",
    )


def _rules_by_name(known: Mapping[str, Rule]) -> dict[str, list[Rule]]:
    """Return the rules that mention a name in their words, by this name."""
    found: dict[str, list[Rule]] = {}
    for rule in known.values():
        for name in dict.fromkeys(_NAME.findall(f"{rule.title} {rule.fix}")):
            found.setdefault(name.strip("."), []).append(rule)
    return found


def _parameter(
    name: str, settings: tuple[Parameter, ...], by_name: Mapping[str, list[Rule]]
) -> Entry:
    """Return the entry of a parameter."""
    plain = name.replace("[]", "")
    last = plain.rpartition(".")[2]
    about = list(by_name.get(plain, ()))
    # A short word such as `name` or `type` stands in rules about other tables.
    if "_" in last:
        about += by_name.get(last, ())
    alike: dict[str, list[str]] = {}
    for setting in settings:
        alike.setdefault(described(setting), []).append(whose(setting))
    paragraphs = []
    for description, trainers in alike.items():
        paragraphs.append(f"{', '.join(dict.fromkeys(trainers))}: {description}")
    said = list(_said(settings, about))
    return Entry(
        kind="parameter",
        names=tuple(dict.fromkeys((name, plain))),
        title=f"{_SPELLED_OUT.get(last, 'a parameter')} of "
        f"{', '.join(dict.fromkeys(map(whose, settings)))}",
        text="\n\n".join((*paragraphs, *(said or [_NO_DESCRIPTION]))),
        settings=settings,
    )


def _said(settings: tuple[Parameter, ...], about: list[Rule]) -> Iterator[str]:
    """Yield what is known of a parameter beside its type and default."""
    trainers = {setting.trainer for setting in settings}
    for setting in settings:
        # A name that both generations have may have another name beside it.
        if setting.other_name and len(trainers) == 1:
            other = next(one for one in GENERATIONS if one != setting.trainer)
            yield f"In {other} its name is {setting.other_name}."
            break
    for rule in dict.fromkeys(about):
        yield f"{rule.id} ({rule.applies}): {rule.title}. Otherwise: {rule.fails}."


def whose(setting: Parameter) -> str:
    """Return the name of the trainer that has the parameter `setting`. If the parameter is not one
    of a whole training (rl), the name of the program follows, as in "prime-rl sft".
    """
    if setting.component == "rl":
        return setting.trainer
    return f"{setting.trainer} {setting.component}"


def described(setting: Parameter) -> str:
    """Return a sentence with the type and the default of the parameter `setting`, and with the
    condition under which it exists, if it does not always exist. If no schema describes the
    parameter, the sentence says that these are unknown, and which values the shipped configs set.
    """
    if setting.set_by:
        values: dict[str, str] = {}
        for file, value in setting.set_by:
            values.setdefault(_shown(value), file)
        examples = ", ".join(f"{value} ({file})" for value, file in values.items())
        return f"type and default are unknown here; the shipped configs set {examples}."
    text = f"{setting.type}; {_default(setting)}"
    if setting.when:
        text += f"; only with {' or '.join(setting.when)}"
    if setting.table:
        text += f"; off unless the config has a table [{setting.table}]"
    return f"{text}."


def _default(setting: Parameter) -> str:
    """Return the default of a parameter in words."""
    if setting.required:
        return "required"
    if not setting.has_default:
        return "no default"
    if setting.default is None:
        return "default: none"
    return f"default {_shown(setting.default)}"


def _shown(value: object) -> str:
    """Return a value as a config has it, shortened."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table of its own defaults" if value else "an empty table"
    if isinstance(value, str):
        value = f'"{value}"'
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

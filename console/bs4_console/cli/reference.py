"""Write docs/cli.md from the parsers themselves: `python -m bs4_console.cli.reference FILE`. A test
checks that the page is up to date.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from bs4_console.cli.main import COMMANDS, build
from bs4_console.cli.output import cell

#: The content of each JSON object by its name. A test checks that every `emit(NAME, ...)` in this
#: package is here.
SHAPES = {
    "action": (
        "`action` (key), `state` (accepted, running, verifying, done, failed, cancel, "
        "plan-changed, busy, refused, interrupted), `detail`, `steps` [{`title`, `command`, "
        "`state`, `detail`, `started_t`, `ended_t`}], `result`. One object a change, the last one "
        "is the end."
    ),
    "audit": (
        "`status` (whole, broken, unknown), `code`, `journals` [{`status`, `where` (kept, live, "
        "directory), `pod` (or null), `path`, `files`, `records`, `first_seq`, `last_seq`, "
        "`breaks` (how many), `first_break` {`file`, `offset` (the byte at which the line begins "
        "that shows it), `detail`} or null, `unknown` [what could not be checked, and why], "
        "`notes` [sentence]}]"
    ),
    "boot-hook": (
        "`pod`, `hooks` [vast, runpod, cron, systemd: those that are there], `last` {`t`, `b` "
        "(boot id), `via`, `pid`} or null, `worked` (a hook has started the agent since this "
        "boot), `told` [sentences]"
    ),
    "boot-hook-text": "`pod`, `platform`, `text`, `where` (it goes)",
    "change": (
        "`t` (wall seconds at which this console knew of it), `kind` (pod, run, step, incident, "
        "action, checkpoint), `pod`, `run` (or empty), `text`, `next` (what a person can do, or "
        "empty). One object a change."
    ),
    "check": (
        "`status`, `code`, `pods` [{`pod`, `status`, `code`, `sentences`, `perfdata` {label: "
        "value}, `incidents` [{`id`, `failure`, `run`, `severity`, `summary`, `playbook`}], "
        "`coverage` [what could not be seen], `sights` [{`run`, `witness`, `state` (running, "
        "stopped, gone, unknown), `detail`, `seen_t`, `looked_t`, `step`, `coverage`}], `checks` "
        "[{`subject`, `status`, `text`}]}]. A PATH stands where a pod would, "
        "and so does a budget (`daily budget`)."
    ),
    "checkpoints": (
        "one object a run: `pod` (not for a directory), `run`, `trainer`, `output_dir`, `live`, "
        "`checkpoints` [{`step`, `complete`, `missing` {part: why}, `parts` [{`name`, `path`, "
        "`bytes`, `complete`, `why`}], `bytes`, `t` (wall seconds), `age_s`}] oldest first, "
        "`resumable` (the newest complete step, or null), `emptied` (older steps that the "
        "trainer's rotation has emptied), `loose` {`steps`, `bytes`} (weights and broadcasts of "
        "other steps), `disk` {`path`, `used`, `total`, `free`, `read_only`}, "
        "`forecast` {`set_bytes`, `every_steps`, `every_s`, `next_t`, `room` (how many more fit), "
        "`to_come`, `full_t`, `full_step`, `lasts`}, `order` {`last`, `at_least`, `milestones`, "
        "`synced`, `best`} or null, `guard` {`event`, `detail`, `t`} or null, `trainer_keeps`, "
        "`config` [{`path`, `present`}], `best` {`metric`, `step`, `value`} by the metric of the "
        "order, or null"
    ),
    "config-diff": "`changes` [{`kind` (added, removed, changed), `key`, `before`, `after`}]",
    "config-estimate": (
        "`billions`, `sides` [{`name`, `gpus`, `parts` [{`name`, `gib`, `arithmetic`}], `limit`, "
        "`gib`, `fits`}], `notes`, `fits`"
    ),
    "config-fix": (
        "`fixed`, `left` [as in config-lint], `diff`, `written`, `original` (where the old file "
        "is kept, or null)"
    ),
    "config-history": (
        "`config`, `versions` [{`version`, `created`, `based_on`, `reason`, `digest`}] oldest "
        "first, `changed` (not recorded as it is), `active` {use: version} of the registry's "
        "active_configs"
    ),
    "config-lint": (
        "`findings` [{`id` (a rule of docs/configs.md, `schema`, `toml` or `yaml`), `level` "
        "(error or warning), `line`, `message`, `fix`}]; with --pod also `coverage` {`schema` "
        "(shipped, or trainer: its own classes), `detail` (the class, or why none was asked)}"
    ),
    "config-migrate": (
        "`to`, `component`, `refused` (the result would mean something else), `text` (empty when "
        "refused), `left_out` [{`key`, `line`, `reason`, `refuses`}], `findings` [as in "
        "config-lint, of the result]"
    ),
    "config-new": "`trainer`, `text`, `reasons`, `findings` [as in config-lint]",
    "demo": "`scenario`, `failure_id`, `trainer`, `detected_s`, `plan_hash`, `steps`, `recovered`, "
    "`recovered_s`, `steps_before`, `steps_after`, `data_lost`, `fixed_by` (playbook, person or "
    "nobody), `action` (how the playbook's action ended)",
    "deploy": "`pod`, `agent` (version), `bundle`, `python`, `coverage` {what: seen or not}",
    "diagnose": (
        "`findings` [{`id`, `title`, `role`, `severity`, `summary`, `source`, `evidence` "
        "[{`source`, `file`, `offset`, `line`, `text`}], `playbook` (another than the failure's "
        "own, or null), `attempt` (of the run, by its logs), `count` (how many times it was seen; "
        "the evidence has the first and the latest), `coverage` [what could not be seen of this "
        "failure]}], roots first; `coverage` [what files cannot show, and logs that were perhaps "
        "read wrongly]; `unjudged` [the logs, and directories without a log, of which it is not "
        "known whether they are well; without a finding the exit code is 3]; `unnamed` [the "
        "exceptions with which logs without a finding end]; `assumed` "
        "{file: the source that was taken, where neither "
        "name nor content told what wrote it}. `file` as given, `-`, or relative to the directory "
        "given; "
        "`offset` the raw byte at which the line begins (of a packed log or one in UTF-16, the "
        "byte of its text in UTF-8); `line` 1-based by LF, 0 when the whole "
        "file or directory is the evidence."
    ),
    "docs": (
        "`topic`, `corrected` (the name that was searched instead, or null), `unknown` [words that "
        "occur nowhere], `hits` [{`kind` (exit, failure, xid, rule, parameter, command, "
        "word, key, page), `name`, `title`, `passage`, `text` (with --full, else null), `settings` "
        "[{`trainer`, `component`, `type`, `has_default`, `default`, `required`, `when` [values of "
        "a type in the same table], `table` (that is off by default, or null), `other_name` (in "
        "the other prime-rl, or null), `set_by` [{`file`, `value`}]}] (of a parameter), `command` "
        "(shows more)}] best first, `nearest` [name] (only where nothing is found)"
    ),
    "incident": (
        "`pod`, `run`, `id`, `failure`, `title`, `severity`, `summary`, `playbook` (or null), "
        "`action` (the key of the one that is watched; empty in `recover`). One object for each "
        "incident that opens on the run while an action on it is watched."
    ),
    "keep-plan": (
        "`pod`, `run`, `plan_hash`, `order` {`last`, `at_least`, `milestones`, `synced`, `best`}, "
        "`best_step` (that stays as the best, or null), `free` [{`step`, `bytes`, `complete`, "
        "`if_full` (only while the disk cannot take the next checkpoint)}]"
    ),
    "log": (
        "`stream`, `cursor` (where the line begins), `text`, `whole` (false: its file ended "
        "without LF). One object a line."
    ),
    "notice": (
        "`pod`, `status`, `was` (what was told before), `text`, `incidents`, `t`. One object a "
        "transition; webhooks get the same."
    ),
    "phases": (
        "`run`, `phase` (the one it is in, or null), `due`, `why`, `resumable` (step), `live`, "
        "`phases` [{`name`, `config`, `until`}]"
    ),
    "plan": (
        "`plan_hash`, `expires` (wall seconds), `playbook`, `run`, `attempt`, `steps` [{`kind`, "
        "`title`, `command`, `parameters`, `targets`, `shown`}]; of a launch `why`, `notes`, "
        "`config`, `resume`, `moves`, `typed_name`, `checks` as in preflight and `memory` [line] "
        "(what a GPU will have to hold, with the arithmetic) too"
    ),
    "playbook": "the playbook as it is written, without its `cases`, and its `family`",
    "playbook-lint": "`valid` [id], `problems` [{`file`, `where`, `message`}]",
    "playbook-new": "`id`, `family`, `file` (that was written)",
    "playbook-tries": "`tries` [{`scenario`, `failure_id`, `trainers`}]",
    "playbook-try": "as `demo`; `plan_hash` is null where a person mends it",
    "playbooks": "`playbooks` [{`id`, `family`, `title`, `role`, `severity`, `danger`, `applies`}]",
    "preflight": (
        "`pod`, `status`, `code` (as in check), `blocking` [id], `checks` [{`id` (a failure of "
        "docs/failures.md, a rule of docs/configs.md, or a name of its own), `title`, `state` (ok, "
        "warning, blocking, unknown), `why`, `fix`, `playbook`}]"
    ),
    "pod": (
        "what the inventory says of it; `pods show` adds `machine` {`gpus`, `driver`, `cores`, "
        "`memory`, `type`, `region`; what is known}, `disks` [text], `host_keys`, "
        "`placed_keys` [names and ids of keys that set-ups left on it], `runs` [{`name`, `state`, "
        "`step`}] and `seen_s` (age, or null)"
    ),
    "pod-key": "`pod`, `line` (for authorized_keys), `fingerprint` (of the key)",
    "pod-removed": "`pod`, `host_key_forgotten`",
    "pod-sync": (
        "`pod`, `target`, `plan_hash`, `send` [path], `bytes`, `same` (files that are there "
        "already), `gone` [path that only the pod has], `skipped` {path: why}, `how` (rsync, "
        "sftp, or null when nothing was sent), `moved` (files put into the trash)"
    ),
    "pod-test": (
        "`pod`, `reachable`, `seconds`, `machine`, `looks_only` (the key of this login may only "
        "look; `machine` is empty then)"
    ),
    "pods": "`pods` [what the inventory says]",
    "pods-import": "`added` [name], `known` [name], `skipped` [{`alias`, `reason`}]",
    "merge-plan": (
        "`pod`, `run`, `plan_hash`, `expires`, `step` (or null for an adapter that lies in none), "
        "`source`, `target`, `bytes` (of the shards or the base), `needed` (on the disk), `free`, "
        "`notes`, `commands` [argv], `cwd`, `steps`"
    ),
    "backup-plan": (
        "`pod`, `run`, `plan_hash`, `expires`, `step`, `source`, `target`, `bytes`, `needed` (on "
        "the disk), `free`, `notes`, `steps`"
    ),
    "model": "`model` [as in models]",
    "envs-command": (
        "`place` (a pod, or this machine), `directory`, `argv` [word]; of a push from this machine "
        "also `package` {`directory`, `name`, `version`, `dependencies`, `files`, `size` (bytes), "
        "`problems`, `notes`}"
    ),
    "run-checklist": (
        "`run`, `step` (null after an order), `every`, `items` [{`name`, `state` (ok, look, "
        "unknown, by hand), `text`}]"
    ),
    "splits": (
        "`place` (a pod, or this machine), `splits` [{`use` (train, eval or empty), `place`, "
        "`split`, `rows` (null: unknown), `limit` (examples that the config takes, or null), "
        "`note`, `error`}], `overlaps` [{`one`, `other` (positions in `splits`), `rows` (of "
        "`other`)}], `wrong` [sentence]"
    ),
    "model-verify": (
        "`model`, `trainer`, `ok`, `remarks` [{`check`, `level` (error, warning, info), "
        "`message`, `fix`}]"
    ),
    "models": "`models` [{`name`, `kind` (text, vision, closed), `hub`, `params_b`, `active_b`, "
    "`tool_calls`, `impl`, `price` {`in`, `out`, `source`, `date`}, `baselines` [{`solved`, `n`, "
    "`source`, `date`}], `max_tokens`, `trained`, `problems`, `blocked` {`applies`, `reason`}}]",
    "provision-balance": (
        "`accounts` [{`provider`, `credit` (US dollars, or null), `prepaid` (false if invoices are "
        "sent), `rate` (of its machines, US dollars an hour, or null), `hours` (that the credit "
        "lasts, or null), `told` (the same in words)}], `short` [providers whose credit lasts for "
        "less than --hours], `failures` {provider: why}"
    ),
    "provision-key": (
        "`provider`, `file` (with the key or a reference), `keyring` (the key is there), `why` (it "
        "is not, or empty)"
    ),
    "provision-machine": (
        "`machine` [as in provision-machines], `pod` (its name in the inventory, or null), "
        "`trusted` (its key is pinned)"
    ),
    "provision-machines": (
        "`machines` [{`provider`, `id`, `label`, `state` (starting, running, stopped, ended, "
        "unknown), `raw_state` (the provider's words), `host`, `port`, `user`, `price` (dollars an "
        "hour), `created_t`, `run`, `pod`, `orphan`}], `in_doubt` [{`label`, `provider`, `run`, "
        "`why`}] (may exist), `failures` {provider: why it could not be asked}"
    ),
    "provision-offers": (
        "`offers` [{`provider`, `id`, `gpu`, `count`, `price` (dollars an hour, the whole "
        "machine), `disk_gb`, `region`, `reliability`, `interruptible`, `notes` [what the price "
        "leaves out]}], cheapest first, `dearer` (how many are above --max-price), `failures` "
        "{provider: why}"
    ),
    "provision-plan": (
        "`plan_hash`, `expires` (wall seconds), `run`, `want`, `offers` [in the order in which "
        "they are tried], `max_price`, `max_spend`, `hours`, `spent` (of the run so far), "
        "`planned` (dollars), `another`, `pod`, `identity`, `notes`"
    ),
    "provision-terminated": "`machine` (PROVIDER:ID), `label`, `forgotten` (pods)",
    "prune": "`to`, `run`, `removed` [step], `bytes`, `kept` {step: why}",
    "prune-plan": (
        "`to`, `run`, `plan_hash`, `remove` [{`step`, `bytes`, `complete`}], `bytes`, `kept` "
        "{step: why}"
    ),
    "remote": (
        "`to`, `run`, `pointer` (step, or null), `pointer_why` (it cannot be used), `steps` "
        "[{`step`, `complete`, `missing`, `bytes`, `files`, `t` (the server's clock), `age_s`, "
        "`pointed`, `trainer`, `wandb`}], `older` [{`step`, `root`, `bytes`, `files`, `missing`}] "
        "(what other scripts left, where nothing of ours is), `others` [name]"
    ),
    "restore-plan": (
        "`pod`, `run`, `plan_hash`, `expires`, `step`, `skipped` [[step, why]] (newer ones that "
        "were passed over; step -1: the pointer itself), `notes`, `bytes`, `missing` (bytes to "
        "fetch), `free`, `steps`, `launch` (what resumes it), `orders` [line] (with --launch: the "
        "standing orders that the run gets again)"
    ),
    "run": (
        "`run` {`name`, `state`, `status`, `status_note`, `decided` (the status that a person gave "
        "it), `still_on` (the pod on which it had not ended when that was last read), `date`, "
        "`model`, `config`, `version`, "
        "`lineage` (what that version is based on), `phase`, `pod`, `pod_id`, `price` (dollars an "
        "hour), `start`, `end`, `wandb`, `trainer`, `step`, `max_steps`, `reward`, `pace_s`, "
        "`started_t`, `ended_t`, `source` (log, or a pod), `fields` (as written), "
        "`remarks` [text], "
        "`step_times` [{`config`, `step_time`, `seconds`, `more` {column: text}}], `attempts` "
        "[{`title`, `text`, `started_t`, `ended_t`, `good`, `resume`, `overrides`, `phase`, "
        "`number`, `config_digest`, `config_version`, `config_based_on`, `versions` {package: "
        "version}, `hardware` "
        "{name: text}, `commit`, `pod`}], `hardware` {name: text} (as last seen), `incidents` "
        "[{`title`, "
        "`text`, `state`, `t`, `playbooks`}], `lessons`, `notes` [{`t`, `who`, `text`, "
        "`lesson`}], `validation` [{`metric`, `points` [[step, value]], `lower` (less is "
        "better), `best_step`, `best`, `checkpoint` (of the best step: complete, torn, gone, "
        "unknown), `checkpoint_why`, `saved_step`, `saved` (best with a complete checkpoint)}]}"
    ),
    "recovery": (
        "`run`, `outcome` (watching, plan, waiting, recovering, recovered, stopped, held, "
        "finishing, finished), `sentence`, `code`, `verdict` {`verdict` (fine, network-only, "
        "rebooted, hung, reclaimed, ended, unknown), `sentence`, `evidence` [{`t`, `source`, "
        "`word`, `detail`}], `next_step`} or null, `plan` {`hash`, `run`, `lost`, `step`, "
        "`recovery`, `max_price`, `most`, `bytes`, `steps_lost`, `spent_today`, `spent`, `offer`} "
        "or null, `lost` (the pod that was lost, or null), `rotate` [the keys that were on it, by "
        "name and id]. One object a look."
    ),
    "report": "`pod`, `run`, `attempt`, `file` (where it was brought)",
    "reports": (
        "`reports` [{`pod`, `run`, `attempt`, `t` (written, wall seconds), `bytes`, `sha256`, "
        "`missing` [what is not in it]}]"
    ),
    "run-bench": (
        "`verdicts` [{`step`, `points`, `word` (ahead, on-track, behind, worse, standstill, "
        "measured), `advice`, `archetypes` {name: change}}]"
    ),
    "run-compare": (
        "`runs` [name, name], `rows` [{`part` (run, settings, data, code, packages, hardware, "
        "result), `key`, `values` (null: unknown; of a setting: the config has it not), `differs` "
        "(null: unknown), `why` (it is unknown)}]"
    ),
    "run-evals": (
        "`file`, `torn` (its last line is not complete and left out), `unscored` (rollouts without "
        "an error and a reward that is a number, left out), `summaries` [{`environment`, "
        '`archetype` ("" for all), `examples`, `rollouts`, `errors`, `mean`, `low`, `high` (95 %; '
        "null if not known)}], `changes` [{`environment`, `archetype`, `examples` (in both), "
        "`mean`, `low`, `high`, `word` (better, worse, not shown, unknown)}], `missing` "
        "[{`environment`, `archetype`, `examples` (before)}] (not compared: no example has a "
        "reward in both); of a results_*.json: `file`, `pass_rate`, `perfect_rate`, `avg_reward`, "
        "`archetypes` {name: reward}"
    ),
    "run-milestones": (
        "`run`, `pod`, `milestones` [{`step`, `examples` (of each environment, or null), `run` "
        "(the evaluation's), `state` (to-come, due, no-weights, under-way, evaluated, failed)}]; "
        "with an evaluation the objects of `launch` follow"
    ),
    "run-eta": (
        "`run`, `ended` (then `milestones` is empty), `done` (steps), `pace_s` (or null), "
        "`price`, `cost_so_far`, `milestones` [{`step`, `seconds`, `cost`}]"
    ),
    "run-rollouts": (
        "`run`, `file` (on the pod), `rollouts` [{`environment`, `example`, `reward` (null: it "
        "has none, or ended in an error), `error`, `messages` [{`role`, `text`}]}]"
    ),
    "run-report": "`run`, `text` (Markdown or HTML), `file` (that was written, or null)",
    "run-note": (
        "`run`, `text`, `lesson`, `price`, `status` (or null), `still_on` (the pod on which it "
        "trains all the same, or null)"
    ),
    "run-tag": "`run`, `tags` (all that it has now)",
    "run-status": "`run`, `entry` (Markdown), `file` (what it was appended to, or null)",
    "run-truncation": (
        "`malformed`, `unrepaired`, `causes` {truncated, escape, not-json: lines}, `word`, `advice`"
    ),
    "sync": (
        "`pod`, `run`, `to` (null: off), `pointer` (step), `pointed_t`, `uploaded` [step], "
        "`missed` [milestone that was gone before it was uploaded], `step` (being uploaded, or "
        "null), `sent`, `total`, `rate` (bytes a second), `failures` (in a row), `error`, "
        "`detail`, `order` {`every`, `milestones`, `keep_remote`, `limit_mib`, `weights`, `once`, "
        "`who`}"
    ),
    "setup-plan": (
        "`pod`, `plan_hash`, `expires` (wall seconds), `todo` (steps that would do something), "
        "`steps` [{`kind`, `title`, `command`, `parameters`, `targets`, `shown` {`now`, `done`}}]"
    ),
    "runs-export": "`markdown`, `runs` [name]",
    "runs-rollback": (
        "`run`, `attempt`, `pod`, `version` (of the registry, or null), `digest` (of the config's "
        "values), `file` (that was written), `changes` [line of a diff against the file that was "
        "there, or the newest config], `redacted` (a secret is missing in it)"
    ),
    "runs-import": "`added`, `changed`, `same`: [name] each",
    "runs-cost": (
        "`stays` [{`run`, `pod`, `provider` (null: nobody knows), `seconds`, `cost` (null: no "
        "price is known)}] oldest first, `total` (US dollars of all runs), `unpriced` [run], "
        "`by`, `groups` [{`key` (such as 2026-W49; null: no run, or a provider that nobody "
        "knows), `runs`, `unused` (by no run), `all`, `unpriced`}], `rented` {`cost` (of the "
        "machines rented here), `unused`, `unsure` (of how many it is not known whether they "
        "exist)}, `all` (`total` and what no run used), "
        "`budgets` [{`period` (day, week or month), `limit`, `spent`, `status`}]"
    ),
    "run-lessons": '`lessons` [{`run` (or ""), `topic`, `text`}]',
    "runs-wandb": "`runs` [{`id`, `path`, `bytes` (null on a pod), `synced`, `argv`}], "
    "`waiting` [id]",
    "runs": (
        "`runs` [{`pod`, `name`, `trainer`, `state`, `status` (the word that a person gave it, or "
        "the state, in capitals), `status_note`, `step`, `max_steps`, `adopted`, "
        "`output_dir`, `attempts` [{`number`, `started_t`, `resume`, `state`, `code`, `signal`, "
        "`good`, `ended_t`, `detail`}], `tags`}]; runs of the run log stand behind those of "
        "pods, as in `run`"
    ),
    "trainers": (
        "`trainers` [{`id`, `title`, `beliefs` (how many), `known` [{`commit`, `version`, `date`, "
        "`read` (the beliefs were read from it; if not, only checked with it)}]}]"
    ),
    "trainers-check": (
        "`pod` (null for a directory of this machine), `path`, `trainer`, `counts` {state: how "
        "many}, `code` (the exit code), `weaker` {feature: beliefs that do not hold for it}, "
        "`beliefs` [{`id`, `topic`, `state` (holds, moved, gone, unknown), `file`, `name` "
        "(qualified, of the place), `where` (FILE:LINE in the checkout, or empty), `note`, "
        "`weaker` (a feature, or empty)}]"
    ),
}

_HEAD = """# Commands

Written from the command line's own parsers by `python -m bs4_console.cli.reference docs/cli.md`; do
not edit.

`bs4-console` alone opens the screen. Everything it does can be done without it, by the commands
below: the same code, the same agent. Errors are one sentence on stderr that ends with the next
thing to do. Nothing is asked for where there is no terminal: what acts is confirmed by a name or by
a plan's hash. Only what takes nothing away (`launch`, `pods setup`, `pods sync`, `phases advance`)
can be confirmed beforehand, with `--yes`; no playbook can.

## Exit codes

| code | everywhere but `check` | `check` |
|---|---|---|
| 0 | done | OK |
| 1 | a finding, or tried and not achieved | WARNING |
| 2 | usage, or not applicable | CRITICAL |
| 3 | unreachable or unknown (a defect of the console, too) | UNKNOWN; usage errors and defects |
| 4 | refused: unconfirmed, plan changed or old, busy, read-only, unconfirmed host key | |
| 130 | interrupted with Ctrl-C | interrupted |

`check` over several pods takes the worst in the order OK < WARNING < UNKNOWN < CRITICAL, and never
deploys: a pod without an agent is UNKNOWN, with the command that would deploy one.

## Files

| where | what | instead |
|---|---|---|
| `~/.config/bs4-console` | `pods.toml`, the inventory; `keys.toml`, your keys | `BS4_CONFIG_DIR` |
| `~/.local/share/bs4-console` | `known_hosts`, run log, what pods told | `BS4_DATA_DIR` |
| `~/.local/state/bs4-console` | `screen.json`: how the screen was left | `BS4_STATE_DIR` |
"""


def markdown() -> str:
    """Return the text, in Markdown, of docs/cli.md, which is the page of all commands, their
    options and the JSON objects that they print. The page itself is not written.
    """
    parser = build()
    lines = [_HEAD]
    for name, command in _subparsers(parser):
        lines += [f"## {name}", "", f"{COMMANDS[name][0].upper()}{COMMANDS[name][1:]}.", ""]
        verbs = list(_subparsers(command))
        for verb, parsed in verbs:
            lines += [f"### {name} {verb}", "", *_help_of(command, verb), *_describe(parsed)]
        if not verbs:
            lines += _describe(command)
    lines += [
        "## JSON",
        "",
        'Every object has `schema: "bs4.NAME/1"`. Streams of them are NDJSON.',
        "",
        "| NAME | holds |",
        "|---|---|",
    ]
    for name, text in sorted(SHAPES.items()):
        lines.append(f"| `{name}` | {text} |")
    return "\n".join(lines) + "\n"


def _subparsers(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield the name and the parser of each subcommand."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _help_of(parser: argparse.ArgumentParser, verb: str) -> list[str]:
    """Return the help of a subcommand as lines of the page, or an empty list."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                if choice.dest == verb and choice.help:
                    return [f"{choice.help[0].upper()}{choice.help[1:]}.", ""]
    return []


def _describe(parser: argparse.ArgumentParser) -> list[str]:
    """Return the lines about one command: its words, and a row for each option."""
    words = [parser.prog]
    rows = []
    for action in parser._actions:
        if action.dest == "help":
            continue
        name = action.metavar or action.dest
        if isinstance(name, tuple):
            name = " ".join(name)
        if not action.option_strings:
            shown = {"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} ..."}
            words.append(shown.get(str(action.nargs), name))
            rows.append((f"`{name}`", action))
        else:
            value = ""
            if action.nargs != 0:
                value = f" {'|'.join(map(str, action.choices)) if action.choices else name.upper()}"
            if action.required:
                words.append(f"{action.option_strings[-1]}{value}")
            rows.append(
                (", ".join(f"`{option}{value}`" for option in action.option_strings), action)
            )
    lines = ["```", " ".join(words), "```", ""]
    if rows:
        lines += ["| | |", "|---|---|"]
        for names, action in rows:
            said = parser._get_formatter()._expand_help(action) if action.help else ""
            lines.append(f"| {cell(names)} | {cell(said)} |")
        lines.append("")
    return lines


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(markdown())

"""An input field whose keys are handled in the order in which they were typed."""

from __future__ import annotations

from textual.events import Key
from textual.widgets import Input


class Field(Input):
    """Textual's input field, which handles its own keys, such as Backspace and the arrows, in turn
    with letters. Textual 8.2.8 inserts a letter at once, but hands any other key up to the app
    first: letters that are typed quickly behind it overtake it, and another text is entered than
    was typed.
    """

    async def _on_key(self, event: Key) -> None:
        if event.is_printable:
            return
        for widget, bindings in self.screen._modal_binding_chain:
            if widget is not self:
                continue
            for binding in bindings.key_to_bindings.get(event.key, ()):
                if not binding.priority and await self.app.run_action(binding.action, self):
                    event.stop()
                    event.prevent_default()
                    return

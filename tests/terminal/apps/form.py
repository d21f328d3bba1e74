"""A screen of Textual: a table, a tree, an input line and a bar, without anything that blinks."""

from textual.app import App
from textual.containers import Horizontal
from textual.widgets import DataTable, Footer, Header, Input, ProgressBar, Tree


class Form(App):
    BINDINGS = [("f2", "advance", "Advance"), ("f3", "toggle_dark", "Theme")]
    CSS = "Tree { width: 30; border: round green; } DataTable { border: heavy $accent; } Input { height: 3; }"

    def compose(self):
        yield Header()
        with Horizontal():
            yield Tree("root 字")
            yield DataTable(zebra_stripes=True)
        yield Input(placeholder="a name", id="name")
        yield ProgressBar(total=10, show_eta=False)
        yield Footer()

    def on_mount(self):
        self.query_one(Input).cursor_blink = False
        tree = self.query_one(Tree)
        tree.root.expand()
        for name in ("one", "two", "漢字"):
            tree.root.add(name, expand=True).add_leaf("leaf of " + name)
        table = self.query_one(DataTable)
        table.add_columns("number", "square", "name")
        for number in range(40):
            table.add_row(number, number * number, "row %d é" % number)
        self.query_one(Input).focus()

    def action_advance(self):
        self.query_one(ProgressBar).advance(3)

    def action_toggle_dark(self):
        self.theme = "textual-light" if self.theme == "textual-dark" else "textual-dark"


Form().run()

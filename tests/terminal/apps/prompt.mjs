// A screen of Ink, as the input lines of coding agents are made of.
import { createElement as make, useState } from "react";
import { Box, Static, Text, render, useApp, useInput } from "ink";

function Prompt() {
  const [text, setText] = useState("");
  const [sent, setSent] = useState([]);
  const { exit } = useApp();
  useInput((input, key) => {
    if (key.escape) exit();
    else if (key.return) { setSent((all) => [...all, text]); setText(""); }
    else if (key.backspace || key.delete) setText((now) => now.slice(0, -1));
    else setText((now) => now + input);
  });
  return make(Box, { flexDirection: "column" },
    make(Static, { items: sent }, (item, at) => make(Text, { key: at, color: "green" }, `> ${item} 字`)),
    make(Box, { borderStyle: "round", borderColor: "#ff8800", paddingX: 1 },
      make(Text, { bold: true }, "❯ "), make(Text, null, text), make(Text, { inverse: true }, " ")),
    make(Box, { justifyContent: "space-between" },
      make(Text, { dimColor: false, italic: true }, "? for help"),
      make(Text, { backgroundColor: "blue", underline: true, strikethrough: true }, `${sent.length} sent`)));
}
render(make(Prompt));

"""What each coding agent needs to work for a test: its package, and its configuration in an empty HOME."""

import json
import os

from model import NAME

# All that is tried is fixed, so that a new release of theirs is no failure of ours.
PACKAGES = {
    "codex": "@openai/codex@0.169.0",
    "claude": "@anthropic-ai/claude-code@2.1.330",
    "gemini": "@google/gemini-cli@0.61.0",
    "qwen": "@qwen-code/qwen-code@0.24.4",
    "opencode": "opencode-ai@1.18.33",
}

# claude remembers of a key that it may use it by its end.
KEY = "sk-ant-none-00000000000000000000000"


def configure(agent, url, home, work, mcp=None):
    """Writes its configuration for work in that folder, and returns the environment to start it in.

    `mcp` is the command of an MCP server that it gets under the name `nbs`.
    """
    environment = {"HOME": home, "NO_UPDATE_NOTIFIER": "1"}
    servers = {"nbs": {"command": mcp}} if mcp else {}

    def write(path, text):
        path = os.path.join(home, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text if isinstance(text, str) else json.dumps(text))

    if agent == "codex":
        environment["MODEL_KEY"] = "none"
        server = f'[mcp_servers.nbs]\ncommand = "{mcp}"\n' if mcp else ""
        write(".codex/config.toml", f"""
model = "{NAME}"
model_provider = "tests"
approval_policy = "on-request"
sandbox_mode = "read-only"
check_for_update_on_startup = false
[model_providers.tests]
name = "tests"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "MODEL_KEY"
supports_websockets = false
[projects."{work}"]
trust_level = "trusted"
[analytics]
enabled = false
[tui]
screen_reader_detection_done = true
[tui.model_availability_nux]
"gpt-6.1-sol" = 3
{server}""")
    elif agent == "claude":
        environment.update(ANTHROPIC_BASE_URL=url, ANTHROPIC_API_KEY=KEY, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", DISABLE_AUTOUPDATER="1", DISABLE_TELEMETRY="1")
        write(".claude.json", {
            "hasCompletedOnboarding": True,
            "hasSeenAutoDefaultNudge": True,
            "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
            "projects": {work: {"hasTrustDialogAccepted": True}},
            "mcpServers": servers,
        })
        # Else it is in a mode that asks for hardly anything.
        write(".claude/settings.json", {"permissions": {"defaultMode": "default"}})
    elif agent == "gemini":
        environment.update(GEMINI_API_KEY="none", GOOGLE_GEMINI_BASE_URL=url)
        write(".gemini/settings.json", {
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
            "telemetry": {"enabled": False},
            "privacy": {"usageStatisticsEnabled": False},
            "mcpServers": servers,
        })
    elif agent == "qwen":
        environment.update(OPENAI_API_KEY="none", OPENAI_BASE_URL=f"{url}/v1", OPENAI_MODEL=NAME)
        write(".qwen/settings.json", {
            "$version": 4,
            "security": {"auth": {"selectedType": "openai"}},
            "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
            "telemetry": {"enabled": False},
            "privacy": {"usageStatisticsEnabled": False},
            "model": {"name": NAME},
            "tools": {"approvalMode": "default"},
            "ui": {"autoModeAcknowledged": True},
            "mcpServers": servers,
        })
    elif agent == "opencode":
        environment.update(OPENCODE_DISABLE_AUTOUPDATE="1", OPENCODE_DISABLE_MODELS_FETCH="1")
        model = {"name": NAME, "tool_call": True, "limit": {"context": 100000, "output": 8000}}
        write(".config/opencode/opencode.json", {
            "autoupdate": False,
            "share": "disabled",
            "model": f"tests/{NAME}",
            "small_model": f"tests/{NAME}",
            "permission": {"bash": "ask", "edit": "ask"},
            "provider": {"tests": {"npm": "@ai-sdk/openai-compatible", "name": "tests", "models": {NAME: model}, "options": {"baseURL": f"{url}/v1", "apiKey": "none"}}},
            "mcp": {"nbs": {"type": "local", "command": [mcp], "enabled": True}} if mcp else {},
        })
    return environment

export ANTHROPIC_BASE_URL=http://127.0.0.1:8080/anthropic
export ANTHROPIC_AUTH_TOKEN=$MINDROUTER_KEY
export ANTHROPIC_MODEL=sim-chat
export ANTHROPIC_DEFAULT_HAIKU_MODEL=sim-chat # for small tasks such as titles
export CLAUDE_CODE_MAX_CONTEXT_TOKENS=32768   # of the model
export CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1

claude -p "Say hello."

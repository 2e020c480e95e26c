opencode run "Say hello."

codex exec --skip-git-repo-check "Say hello."

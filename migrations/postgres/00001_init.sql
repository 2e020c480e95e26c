-- +goose Up
CREATE TABLE catalog_state (
    id INTEGER PRIMARY KEY,
    version BIGINT NOT NULL
);
INSERT INTO catalog_state (id, version) VALUES (1, 1);

CREATE TABLE groups (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    weight DOUBLE PRECISION NOT NULL,
    share_mode TEXT NOT NULL,
    requests_per_minute BIGINT NOT NULL,
    tokens_per_minute BIGINT NOT NULL,
    token_budget BIGINT NOT NULL,
    max_concurrent BIGINT NOT NULL,
    budget_period_days BIGINT NOT NULL,
    models TEXT NOT NULL,
    boundary TEXT NOT NULL,
    audit_content TEXT NOT NULL,
    key_expiry_days BIGINT NOT NULL,
    max_keys BIGINT NOT NULL,
    disabled BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL
);

-- The groups that every installation starts with: weights, no limits.
INSERT INTO groups (id, name, weight, share_mode, requests_per_minute, tokens_per_minute, token_budget, max_concurrent,
    budget_period_days, models, boundary, audit_content, key_expiry_days, max_keys, disabled, created_at)
VALUES
    ('0194e000-0000-7000-8000-000000000001', 'administrators', 10, 'per_user', 0, 0, 0, 0, 30, '["*"]', 'any', '', 90, 16, FALSE, 0),
    ('0194e000-0000-7000-8000-000000000002', 'faculty', 5, 'per_user', 0, 0, 0, 0, 30, '["*"]', 'any', '', 90, 16, FALSE, 0),
    ('0194e000-0000-7000-8000-000000000003', 'researchers', 5, 'per_user', 0, 0, 0, 0, 30, '["*"]', 'any', '', 90, 16, FALSE, 0),
    ('0194e000-0000-7000-8000-000000000004', 'staff', 2, 'per_user', 0, 0, 0, 0, 30, '["*"]', 'any', '', 90, 16, FALSE, 0),
    ('0194e000-0000-7000-8000-000000000005', 'students', 1, 'per_user', 0, 0, 0, 0, 30, '["*"]', 'any', '', 90, 16, FALSE, 0);

CREATE TABLE users (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    email TEXT NOT NULL,
    group_id TEXT NOT NULL REFERENCES groups (id),
    role TEXT NOT NULL,
    weight DOUBLE PRECISION NOT NULL,
    requests_per_minute BIGINT NOT NULL,
    tokens_per_minute BIGINT NOT NULL,
    token_budget BIGINT NOT NULL,
    max_concurrent BIGINT NOT NULL,
    password_hash TEXT NOT NULL,
    disabled BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX users_by_group ON users (group_id);

CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    prefix TEXT NOT NULL,
    tag BIGINT NOT NULL,
    tag_key TEXT NOT NULL,
    hash TEXT NOT NULL,
    label TEXT NOT NULL,
    user_id TEXT NOT NULL REFERENCES users (id),
    group_id TEXT NOT NULL,
    service BOOLEAN NOT NULL,
    scopes TEXT NOT NULL,
    models TEXT NOT NULL,
    requests_per_minute BIGINT NOT NULL,
    tokens_per_minute BIGINT NOT NULL,
    token_budget BIGINT NOT NULL,
    max_concurrent BIGINT NOT NULL,
    class TEXT NOT NULL,
    boundary TEXT NOT NULL,
    reasoning_field TEXT NOT NULL,
    strategy TEXT NOT NULL,
    expires_at BIGINT NOT NULL,
    revoked_at BIGINT NOT NULL,
    disabled BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX api_keys_by_prefix ON api_keys (prefix);
CREATE INDEX api_keys_by_user ON api_keys (user_id, created_at);

CREATE TABLE nodes (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    sidecar_url TEXT NOT NULL,
    sidecar_secret TEXT NOT NULL,
    sidecar_secret_ref TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE backends (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    engine TEXT NOT NULL,
    url TEXT NOT NULL,
    api_key TEXT NOT NULL,
    api_key_ref TEXT NOT NULL,
    node TEXT NOT NULL,
    gpus TEXT NOT NULL,
    max_concurrent BIGINT NOT NULL,
    priority BIGINT NOT NULL,
    boundary TEXT NOT NULL,
    intent TEXT NOT NULL,
    requests_per_minute BIGINT NOT NULL,
    tokens_per_minute BIGINT NOT NULL,
    models TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE models (
    name TEXT PRIMARY KEY,
    config TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE aliases (
    name TEXT PRIMARY KEY,
    config TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE settings (
    id INTEGER PRIMARY KEY,
    config TEXT NOT NULL
);

CREATE TABLE changes (
    id TEXT PRIMARY KEY,
    at BIGINT NOT NULL,
    actor TEXT NOT NULL,
    via TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    detail TEXT NOT NULL
);
CREATE INDEX changes_by_time ON changes (at);

CREATE TABLE instances (
    epoch TEXT PRIMARY KEY,
    started_at BIGINT NOT NULL,
    heartbeat_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL
);

CREATE TABLE requests (
    id TEXT PRIMARY KEY,
    epoch TEXT NOT NULL,
    at BIGINT NOT NULL,
    user_id TEXT NOT NULL,
    user_name TEXT NOT NULL,
    group_id TEXT NOT NULL,
    group_name TEXT NOT NULL,
    key_id TEXT NOT NULL,
    key_prefix TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    model_asked TEXT NOT NULL,
    model_resolved TEXT NOT NULL,
    stream BOOLEAN NOT NULL,
    class TEXT NOT NULL,
    boundary TEXT NOT NULL,
    ip TEXT NOT NULL,
    user_agent TEXT NOT NULL,
    client_request_id TEXT NOT NULL,
    reserved_tokens BIGINT NOT NULL,
    finished_at BIGINT NOT NULL,
    outcome TEXT NOT NULL,
    backend TEXT NOT NULL,
    model TEXT NOT NULL,
    stop_reason TEXT NOT NULL,
    error_code TEXT NOT NULL,
    error TEXT NOT NULL,
    input_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    reasoning_tokens BIGINT NOT NULL,
    usage_estimated BOOLEAN NOT NULL,
    queue_us BIGINT NOT NULL,
    first_token_us BIGINT NOT NULL,
    total_us BIGINT NOT NULL,
    attempts TEXT NOT NULL,
    decision TEXT NOT NULL,
    dropped TEXT NOT NULL,
    effort_asked TEXT NOT NULL,
    effort_effective TEXT NOT NULL
);
CREATE INDEX requests_open ON requests (epoch) WHERE finished_at = 0;
CREATE INDEX requests_by_time ON requests (at, id);
CREATE INDEX requests_by_user ON requests (user_id, at);

CREATE TABLE request_bodies (
    request_id TEXT PRIMARY KEY,
    request BYTEA,
    response BYTEA
);

CREATE TABLE refusals (
    id TEXT PRIMARY KEY,
    at BIGINT NOT NULL,
    user_id TEXT NOT NULL,
    key_id TEXT NOT NULL,
    key_prefix TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    model TEXT NOT NULL,
    code TEXT NOT NULL,
    ip TEXT NOT NULL
);
CREATE INDEX refusals_by_time ON refusals (at, id);

CREATE TABLE usage_counters (
    scope TEXT NOT NULL,
    scope_id TEXT NOT NULL,
    period_end BIGINT NOT NULL,
    used_tokens BIGINT NOT NULL,
    lifetime_tokens BIGINT NOT NULL,
    PRIMARY KEY (scope, scope_id)
);

-- +goose Down
DROP TABLE usage_counters;
DROP TABLE refusals;
DROP TABLE request_bodies;
DROP TABLE requests;
DROP TABLE instances;
DROP TABLE changes;
DROP TABLE settings;
DROP TABLE aliases;
DROP TABLE models;
DROP TABLE backends;
DROP TABLE nodes;
DROP TABLE api_keys;
DROP TABLE users;
DROP TABLE groups;
DROP TABLE catalog_state;

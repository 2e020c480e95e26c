-- +goose Up
CREATE TABLE responses (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    previous TEXT NOT NULL,
    at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    failed BOOLEAN NOT NULL,
    body BYTEA NOT NULL
);
CREATE INDEX responses_by_expiry ON responses (expires_at);

CREATE TABLE response_items (
    owner TEXT NOT NULL,
    item_id TEXT NOT NULL,
    response_id TEXT NOT NULL,
    PRIMARY KEY (owner, item_id, response_id)
);
CREATE INDEX response_items_by_response ON response_items (response_id);

-- +goose Down
DROP TABLE response_items;
DROP TABLE responses;

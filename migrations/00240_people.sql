-- A row of api_keys may be a person who signs in at a provider of OpenID Connect: subject is the issuer and the person's id
-- there. Nobody knows a secret of such a row; sessions lead to it (00241).

-- +goose Up
ALTER TABLE api_keys ADD subject text CHECK (length(subject) BETWEEN 3 AND 1024);
-- Keys are few.
CREATE UNIQUE INDEX api_keys_subject ON api_keys (subject, tenant_id) WHERE subject IS NOT NULL;

-- +goose Down
DROP INDEX api_keys_subject;
ALTER TABLE api_keys DROP subject;

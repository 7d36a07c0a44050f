-- What knows a passage by its version finds it through its section: that is in
-- another index anyway, and one index less is to be written for every passage.

-- +goose Up
DROP INDEX passages_version;

-- +goose Down
CREATE INDEX passages_version ON passages (version_id);

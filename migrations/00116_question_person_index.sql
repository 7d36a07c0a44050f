-- +goose NO TRANSACTION

-- What a person asked through a key, newest first. Questions go on while this is
-- built.

-- +goose Up
DROP INDEX IF EXISTS questions_person; -- one that was left half built
CREATE INDEX CONCURRENTLY questions_person ON questions (key_id, person, id);

-- +goose Down
DROP INDEX questions_person;

-- Who asked: the person that the key named, empty for the key itself.

-- +goose Up
ALTER TABLE questions ADD person text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE questions DROP person;

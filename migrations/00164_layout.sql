-- Where the text of a section stands on its document's pages, as internal/text
-- encodes it; null where the format has no places. And the places that citations
-- point at, which stay when the text is gone.

-- +goose Up
ALTER TABLE sections ADD layout bytea;
-- +goose StatementBegin
DO $$
BEGIN
    ALTER TABLE sections ALTER COLUMN layout SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
    NULL;
END
$$;
-- +goose StatementEnd
ALTER TABLE citations
    ADD page int NOT NULL DEFAULT 0,
    ADD boxes jsonb NOT NULL DEFAULT '[]',
    ADD answer_boxes jsonb NOT NULL DEFAULT '[]';

-- What an answer's documents do not fit of its question.
ALTER TABLE answers ADD notes text[] NOT NULL DEFAULT '{}';

-- +goose Down
ALTER TABLE answers DROP notes;
ALTER TABLE citations DROP page, DROP boxes, DROP answer_boxes;
ALTER TABLE sections DROP layout;

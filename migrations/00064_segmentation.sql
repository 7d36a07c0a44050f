-- How sections become passages, with every setting, so that a recipe stays what
-- it was when the usual values change. What there was is SAGE's segmenter.

-- +goose Up
ALTER TABLE collections DROP CONSTRAINT collections_segmentation_check, ALTER COLUMN segmentation DROP DEFAULT;
ALTER TABLE collections ALTER COLUMN segmentation TYPE jsonb
    USING '{"by": "segmenter", "coarse_tokens": 400, "min_tokens": 24, "max_tokens": 400}';
ALTER TABLE collections
    ALTER COLUMN segmentation SET DEFAULT '{"by": "segmenter", "coarse_tokens": 400, "min_tokens": 24, "max_tokens": 400}',
    ADD CONSTRAINT collections_segmentation_check CHECK (coalesce(segmentation ->> 'by', '') IN ('segmenter', 'similarity', 'sentences'));

ALTER TABLE generations DROP CONSTRAINT generations_segmentation_check;
ALTER TABLE generations ALTER COLUMN segmentation TYPE jsonb
    USING '{"by": "segmenter", "coarse_tokens": 400, "min_tokens": 24, "max_tokens": 400}';
ALTER TABLE generations
    ADD CONSTRAINT generations_segmentation_check CHECK (coalesce(segmentation ->> 'by', '') IN ('segmenter', 'similarity', 'sentences'));

-- +goose Down
ALTER TABLE generations DROP CONSTRAINT generations_segmentation_check;
ALTER TABLE generations ALTER COLUMN segmentation TYPE text USING 'sage';
ALTER TABLE generations ADD CONSTRAINT generations_segmentation_check CHECK (segmentation IN ('sage'));

ALTER TABLE collections DROP CONSTRAINT collections_segmentation_check, ALTER COLUMN segmentation DROP DEFAULT;
ALTER TABLE collections ALTER COLUMN segmentation TYPE text USING 'sage';
ALTER TABLE collections
    ALTER COLUMN segmentation SET DEFAULT 'sage',
    ADD CONSTRAINT collections_segmentation_check CHECK (segmentation IN ('sage'));

-- A fourth way of segmentation.

-- +goose Up
ALTER TABLE collections DROP CONSTRAINT collections_segmentation_check,
    ADD CONSTRAINT collections_segmentation_check CHECK (coalesce(segmentation ->> 'by', '') IN ('segmenter', 'similarity', 'sentences', 'recursive'));
ALTER TABLE generations DROP CONSTRAINT generations_segmentation_check,
    ADD CONSTRAINT generations_segmentation_check CHECK (coalesce(segmentation ->> 'by', '') IN ('segmenter', 'similarity', 'sentences', 'recursive'));

-- +goose Down
ALTER TABLE generations DROP CONSTRAINT generations_segmentation_check,
    ADD CONSTRAINT generations_segmentation_check CHECK (coalesce(segmentation ->> 'by', '') IN ('segmenter', 'similarity', 'sentences'));
ALTER TABLE collections DROP CONSTRAINT collections_segmentation_check,
    ADD CONSTRAINT collections_segmentation_check CHECK (coalesce(segmentation ->> 'by', '') IN ('segmenter', 'similarity', 'sentences'));

-- How likely the answer may be wrong for it to be given; none: what the model pack
-- was calibrated to.

-- +goose Up
ALTER TABLE questions ADD risk double precision CHECK (risk BETWEEN 0 AND 1);

-- +goose Down
ALTER TABLE questions DROP risk;

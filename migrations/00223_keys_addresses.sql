-- The addresses from which a key may be used; none: from every one.

-- +goose Up
ALTER TABLE api_keys ADD addresses cidr[] NOT NULL DEFAULT '{}' CHECK (cardinality(addresses) <= 100);

-- +goose Down
ALTER TABLE api_keys DROP addresses;

-- The key of passages begins with their id (252). The key of the whole table takes over those of its partitions.

-- breaks nothing: the key has the same columns, in another order

-- +goose Up
ALTER TABLE passages DROP CONSTRAINT passages_pkey;
ALTER TABLE passages_0 ADD CONSTRAINT passages_0_pkey PRIMARY KEY USING INDEX passages_0_id;
ALTER TABLE passages_1 ADD CONSTRAINT passages_1_pkey PRIMARY KEY USING INDEX passages_1_id;
ALTER TABLE passages_2 ADD CONSTRAINT passages_2_pkey PRIMARY KEY USING INDEX passages_2_id;
ALTER TABLE passages_3 ADD CONSTRAINT passages_3_pkey PRIMARY KEY USING INDEX passages_3_id;
ALTER TABLE passages_4 ADD CONSTRAINT passages_4_pkey PRIMARY KEY USING INDEX passages_4_id;
ALTER TABLE passages_5 ADD CONSTRAINT passages_5_pkey PRIMARY KEY USING INDEX passages_5_id;
ALTER TABLE passages_6 ADD CONSTRAINT passages_6_pkey PRIMARY KEY USING INDEX passages_6_id;
ALTER TABLE passages_7 ADD CONSTRAINT passages_7_pkey PRIMARY KEY USING INDEX passages_7_id;
ALTER TABLE passages ADD CONSTRAINT passages_pkey PRIMARY KEY (id, tenant_id);

-- +goose Down
ALTER TABLE passages DROP CONSTRAINT passages_pkey;
ALTER TABLE passages ADD CONSTRAINT passages_pkey PRIMARY KEY (tenant_id, id);

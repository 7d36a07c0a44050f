-- A version has up to 25 of these keys: the tenant's setting is read once for a statement, not for each key.

-- +goose Up
ALTER POLICY tenant ON document_signature_keys
    USING (tenant_id = (SELECT nullif(current_setting('sluice.tenant', true), '')::uuid))
    WITH CHECK (tenant_id = (SELECT nullif(current_setting('sluice.tenant', true), '')::uuid));

-- +goose Down
ALTER POLICY tenant ON document_signature_keys
    USING (tenant_id = nullif(current_setting('sluice.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('sluice.tenant', true), '')::uuid);

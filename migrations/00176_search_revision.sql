-- A search that takes a collection for as it was compares its revision alone, so that
-- is raised by all that a search reads of the collection's row.

-- +goose Up
DROP TRIGGER recipe_changed ON collections;
CREATE TRIGGER recipe_changed AFTER UPDATE OF generation, language, deleted_at, space_id, encoder, segmentation ON collections FOR EACH ROW
    WHEN ((OLD.generation, OLD.language, OLD.deleted_at, OLD.space_id, OLD.encoder, OLD.segmentation)
        IS DISTINCT FROM (NEW.generation, NEW.language, NEW.deleted_at, NEW.space_id, NEW.encoder, NEW.segmentation))
    EXECUTE FUNCTION sluice_recipe_changed();

-- +goose Down
DROP TRIGGER recipe_changed ON collections;
CREATE TRIGGER recipe_changed AFTER UPDATE OF generation, language, deleted_at ON collections FOR EACH ROW
    WHEN ((OLD.generation, OLD.language, OLD.deleted_at) IS DISTINCT FROM (NEW.generation, NEW.language, NEW.deleted_at))
    EXECUTE FUNCTION sluice_recipe_changed();

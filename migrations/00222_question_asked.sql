-- What was asked, where it is another text than the question that is answered: a question that follows others in a
-- conversation is made whole from these.
--
-- breaks nothing: programs that do not know the column answer and show the question as it was made whole.

-- +goose Up
ALTER TABLE questions ADD asked text;

-- +goose Down
ALTER TABLE questions DROP asked;

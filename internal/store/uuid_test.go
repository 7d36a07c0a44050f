package store

import (
	"bytes"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

func TestUUIDsAreSentAsTheyAre(t *testing.T) {
	types := pgtype.NewMap()
	registerUUID(types)
	id := uuid.MustParse("0192d3a4-5b6c-7d8e-9f00-112233445566")
	var none *uuid.UUID
	for _, c := range []struct {
		name   string
		oid    uint32
		format int16
		value  any
		want   []byte
	}{
		{"binary", pgtype.UUIDOID, pgtype.BinaryFormatCode, id, id[:]},
		{"pointer", pgtype.UUIDOID, pgtype.BinaryFormatCode, &id, id[:]},
		{"null", pgtype.UUIDOID, pgtype.BinaryFormatCode, none, nil},
		{"text", pgtype.UUIDOID, pgtype.TextFormatCode, id, []byte(id.String())},
		{"to a text column", pgtype.TextOID, pgtype.TextFormatCode, id, []byte(id.String())},
	} {
		got, err := types.Encode(c.oid, c.format, c.value, nil)
		if err != nil || !bytes.Equal(got, c.want) {
			t.Errorf("%s: %x, %v; want %x", c.name, got, err, c.want)
		}
	}
	list := []uuid.UUID{id, uuid.New()}
	sent, err := types.Encode(pgtype.UUIDArrayOID, pgtype.BinaryFormatCode, list, nil)
	if err != nil {
		t.Fatal(err)
	}
	var back []uuid.UUID
	if err := types.Scan(pgtype.UUIDArrayOID, pgtype.BinaryFormatCode, sent, &back); err != nil || len(back) != 2 || back[0] != list[0] || back[1] != list[1] {
		t.Errorf("%v came back as %v, %v", list, back, err)
	}
	if allocated := testing.AllocsPerRun(100, func() {
		if _, err := types.Encode(pgtype.UUIDOID, pgtype.BinaryFormatCode, id, make([]byte, 0, 16)); err != nil {
			t.Fatal(err)
		}
	}); allocated > 6 {
		t.Errorf("sending one takes %.0f allocations: it goes by way of text", allocated)
	}
}

package store

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/pgvector/pgvector-go"
)

const halfvecOID = 16_500

// halfTypes returns types with halfvec, as those of a connection.
func halfTypes() *pgtype.Map {
	m := pgtype.NewMap()
	m.RegisterType(&pgtype.Type{Name: "halfvec", OID: halfvecOID, Codec: halfCodec{}})
	return m
}

func TestVectorsOfAWrongLengthAreRefused(t *testing.T) {
	m := halfTypes()
	var row HalfRow
	for _, data := range [][]byte{{}, {0, 1}, {0, 1, 0, 0}, {0, 1, 0, 0, 1}, {0, 1, 0, 0, 1, 2, 3, 4}} {
		err := m.Scan(halfvecOID, pgtype.BinaryFormatCode, data, &row)
		if err == nil || !strings.Contains(err.Error(), "not as long as it says") {
			t.Errorf("%v gave %v", data, err)
		}
	}
}

func BenchmarkReadVector(b *testing.B) {
	m, numbers := halfTypes(), make([]float32, 256)
	for i := range numbers {
		numbers[i] = rand.Float32()
	}
	data, err := m.Encode(halfvecOID, pgtype.BinaryFormatCode, pgvector.NewHalfVector(numbers), nil)
	if err != nil {
		b.Fatal(err)
	}
	for name, target := range map[string]any{"bits": new(HalfRow), "float32": new(pgvector.HalfVector)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := m.Scan(halfvecOID, pgtype.BinaryFormatCode, data, target); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

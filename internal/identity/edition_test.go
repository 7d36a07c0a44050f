package identity_test

import (
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/identity"
	"github.com/sluice-rag/sluice/schema"
)

func TestWhichIsNewer(t *testing.T) {
	type document struct {
		title, id string
		metadata  schema.Metadata
	}
	for name, c := range map[string]struct {
		older, newer document
		by           schema.NewerBy
	}{
		"versions of file names":      {document{id: "contract_v2.docx"}, document{id: "contract v3 final.docx"}, schema.NewerByVersion},
		"versions are numbers":        {document{id: "manual v2.9.md"}, document{id: "manual v2.10.md"}, schema.NewerByVersion},
		"versions go before dates":    {document{id: "2024-05-01 contract v2.md"}, document{id: "2023-01-01 contract v3.md"}, schema.NewerByVersion},
		"a title and a file name":     {document{title: "Terms, version 1", id: "a.md"}, document{title: "Terms", id: "terms v2.md"}, schema.NewerByVersion},
		"the same version in titles":  {document{title: "Terms v1", id: "terms v1.1.md"}, document{title: "Terms v1", id: "terms v1.2.md"}, schema.NewerByVersion},
		"a file name before a folder": {document{id: "v9/contract v2.md"}, document{id: "v1/contract v3.md"}, schema.NewerByVersion},
		"folders":                     {document{id: "v1/contract.md"}, document{id: "v2/contract.md"}, schema.NewerByVersion},
		"metadata":                    {document{id: "a", metadata: schema.Metadata{"Version": 1.5}}, document{id: "b", metadata: schema.Metadata{"version": "v2"}}, schema.NewerByVersion},
		"dates":                       {document{id: "contract 2021-05-01.md"}, document{id: "contract 2021-11.md"}, schema.NewerByDate},
		"fiscal years":                {document{title: "Report FY2020"}, document{title: "Report 2021"}, schema.NewerByDate},
		"quarters and months":         {document{id: "2023Q2.md"}, document{id: "2023-10.md"}, schema.NewerByDate},
		"dates of metadata":           {document{id: "b", metadata: schema.Metadata{"date": "2020-01-01"}}, document{id: "a", metadata: schema.Metadata{"effective-date": "2021-01-01T00:00:00Z"}}, schema.NewerByDate},
		"nothing is named":            {document{id: "contract.md"}, document{id: "contract (1).md"}, schema.NewerByUpload},
		"one names a version":         {document{id: "contract v7.md"}, document{id: "contract final.md"}, schema.NewerByUpload},
		"a year and a month of it":    {document{id: "contract 2021.md"}, document{id: "contract 2021-03.md"}, schema.NewerByUpload},
		"when a contract ends":        {document{id: "a", metadata: schema.Metadata{"expires": "2030-01-01"}}, document{id: "b", metadata: schema.Metadata{"expires": "2029-01-01"}}, schema.NewerByUpload},
		"keys of programs":            {document{id: "5f2019ab-2018-4c11-9aef-0123456789ab"}, document{id: "5f2017ab-2016-4c11-9aef-0123456789ab"}, schema.NewerByUpload},
	} {
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		older := identity.EditionOf(c.older.title, c.older.id, c.older.metadata, at)
		newer := identity.EditionOf(c.newer.title, c.newer.id, c.newer.metadata, at.Add(time.Second))
		if order, by := newer.Compare(older); order != 1 || by != c.by {
			t.Errorf("%s: %d by %s, want 1 by %s", name, order, by, c.by)
		}
		if order, by := older.Compare(newer); order != -1 || by != c.by {
			t.Errorf("%s, the other way round: %d by %s, want -1 by %s", name, order, by, c.by)
		}
	}
}

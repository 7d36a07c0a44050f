package main

// Commands on who may see what in sources that follow permissions.

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/schema"
)

// accessSubject has the flags that name one person, group or other subject.
type accessSubject struct {
	Person string `xor:"who" placeholder:"ISSUER|SUB" help:"A person of the identity provider: its issuer, |, and their sub."`
	Key    string `xor:"who" placeholder:"ID" help:"An API key, or a person's row among them, by its id."`
	Group  string `xor:"who" placeholder:"NAME" help:"A group of keys and people."`
	Asker  string `xor:"who" placeholder:"NAME" help:"Whom X-Sluice-Person names."`
}

func (a accessSubject) subject() (schema.AccessSubject, error) {
	switch {
	case a.Person != "":
		return schema.AccessSubject{Kind: schema.AccessPerson, Value: a.Person}, nil
	case a.Key != "":
		id, err := schema.ParseID("key", a.Key)
		return schema.AccessSubject{Kind: schema.AccessKey, Value: id.String()}, err
	case a.Group != "":
		return schema.AccessSubject{Kind: schema.AccessGroup, Value: a.Group}, nil
	case a.Asker != "":
		return schema.AccessSubject{Kind: schema.AccessAsker, Value: a.Asker}, nil
	}
	return schema.AccessSubject{}, errors.New("say who is meant: --person, --key, --group or --asker")
}

type sourcesPrincipals struct {
	sourceArg
	Mapped bool `help:"Only those that somebody here is."`
}

func (s *sourcesPrincipals) Run(ctx context.Context) error {
	c, err := s.client()
	if err != nil {
		return err
	}
	return printList(s.JSON, c.SourcePrincipals(ctx, s.Source, s.Mapped), "ID KIND NAME EMAIL MEMBERS IS", func(p schema.SourcePrincipal) []any {
		kind, members := "user", ""
		if p.Group {
			kind, members = "group", fmt.Sprint(p.Members)
		}
		var subject []string
		for _, m := range p.Mappings {
			subject = append(subject, fmt.Sprintf("%s %s", m.Kind, m.Value))
		}
		return []any{p.ID, kind, p.Name, p.Email, members, strings.Join(subject, ", ")}
	})
}

// principalArg is a principal of a source, and the subject that it is mapped to.
type principalArg struct {
	sourceArg
	Principal string `arg:"" help:"Its id in the source, as 'sluice sources principals' lists it."`
	accessSubject
}

// open returns a client and the subject.
func (p *principalArg) open() (*apiclient.Client, schema.AccessSubject, error) {
	c, err := p.client()
	if err != nil {
		return nil, schema.AccessSubject{}, err
	}
	subject, err := p.subject()
	return c, subject, err
}

type sourcesMap struct{ principalArg }

func (m *sourcesMap) Run(ctx context.Context) error {
	c, subject, err := m.open()
	if err != nil {
		return err
	}
	created, err := c.MapPrincipal(ctx, m.Source, m.Principal, subject)
	if err != nil {
		return err
	}
	if m.JSON {
		return printJSON(created)
	}
	fmt.Printf("%s %s is %s in %s\n", created.Kind, printable(created.Value), printable(created.Principal), printable(m.Source))
	return nil
}

type sourcesUnmap struct{ principalArg }

func (m *sourcesUnmap) Run(ctx context.Context) error {
	c, subject, err := m.open()
	if err != nil {
		return err
	}
	if err := c.UnmapPrincipal(ctx, m.Source, m.Principal, subject); err != nil {
		return err
	}
	if !m.JSON {
		fmt.Printf("%s %s is not %s in %s any more\n", subject.Kind, printable(subject.Value), printable(m.Principal), printable(m.Source))
	}
	return nil
}

type accessCommand struct {
	Explain accessExplain `cmd:"" help:"Tell why somebody may see a document, or may not."`
}

type accessExplain struct {
	remote
	Document   string `required:"" placeholder:"ID" help:"The document, by its id, or by its external id with --collection."`
	Collection string `short:"c" help:"Name or id of the collection, for an external id."`
	accessSubject
}

func (e *accessExplain) Run(ctx context.Context) error {
	c, err := e.client()
	if err != nil {
		return err
	}
	subject, err := e.subject()
	if err != nil {
		return err
	}
	document, err := findDocument(ctx, c, e.Collection, e.Document)
	if err != nil {
		return err
	}
	found, err := c.ExplainAccess(ctx, document.String(), subject)
	if err != nil {
		return err
	}
	if e.JSON {
		return printJSON(found)
	}
	verdict := "no"
	if found.Allowed {
		verdict = "yes"
	}
	fmt.Printf("%s: %s\n", verdict, printable(found.Reason))
	for _, h := range found.Holds {
		fmt.Printf("  they are %s, by %s\n", printable(nameOf(h.Principal, h.Name)), printable(strings.Join(h.Through, " > ")))
	}
	for _, r := range found.Entries {
		does, known := "lets in", ""
		if r.Deny {
			does = "keeps out"
		}
		if !r.Known {
			known = ", which the source does not have"
		}
		fmt.Printf("  list %d, level %d %s %s%s\n", r.List+1, r.Level+1, does, printable(nameOf(r.Principal, r.Name)), known)
	}
	return nil
}

// nameOf formats a principal's id and name.
func nameOf(id, name string) string {
	if name == "" || name == id {
		return id
	}
	return id + " (" + name + ")"
}

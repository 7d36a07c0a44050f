package apiserver

// Sources. Settings are checked against the fields that workers registered for their drivers;
// secrets are encrypted before they are stored.

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/signature"
	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/source/seal"
	"github.com/sluice-rag/sluice/internal/store/sources"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
	"github.com/sluice-rag/sluice/schema/wire"
)

// maxSetting is the maximum size of a setting's value, in bytes. The longest is the key of a
// service account.
const maxSetting = 16 << 10

// defaultInterval is the interval between runs if a source has none, in minutes.
const defaultInterval = 60

// sourceAPI implements httpapi.SyncSources.
type sourceAPI struct {
	*sources.SourceStore
	keys   seal.Keys
	nats   *nats.Conn
	signer *signature.Signer
}

// CreateSource implements httpapi.SyncSources.
func (a sourceAPI) CreateSource(ctx context.Context, p schema.Principal, collection uuid.UUID, n api.NewSource) (schema.Source, error) {
	driver, err := a.driver(ctx, n.Driver)
	if err != nil {
		return schema.Source{}, err
	}
	out := schema.NewSource{ID: schema.NewID(), CollectionID: collection, Name: n.Name, Driver: n.Driver, Paused: n.Paused}
	out.Include, out.Exclude, out.Labels, out.MaxBytes, out.MaxItems, out.MaxShorter, out.Every = n.Include, n.Exclude, n.Labels, n.MaxBytes, n.MaxItems, n.MaxShorter, defaultInterval
	setIfGiven(n.Every, &out.Every)
	if err := checkRules(out.SourceSettings); err != nil {
		return schema.Source{}, err
	}
	if n.Settings[source.PermissionsSetting] == source.FollowPermissions && len(n.Labels) > 0 {
		return schema.Source{}, schema.Invalid("body.labels", "must be empty where the source's permissions are followed: they alone set the labels of its documents")
	}
	if err := a.set(&out.SourceSettings, p.Tenant, out.ID, driver, n.Settings, nil, nil); err != nil {
		return schema.Source{}, err
	}
	return a.withWorkerProblem(ctx)(a.SourceStore.CreateSource(ctx, p, out))
}

// driver returns a driver that workers have registered.
func (a sourceAPI) driver(ctx context.Context, name string) (schema.SourceDriver, error) {
	drivers, err := a.SourceDrivers(ctx)
	if err != nil {
		return schema.SourceDriver{}, err
	}
	var names []string
	for _, d := range drivers {
		if d.Name == name {
			return d, nil
		}
		names = append(names, d.Name)
	}
	if len(names) == 0 {
		return schema.SourceDriver{}, fmt.Errorf("no source-worker has run yet, so there is no driver; start one: %w", schema.ErrUnavailable)
	}
	return schema.SourceDriver{}, schema.Invalid("body.driver", "there is no driver %q; there are: %s", name, strings.Join(names, ", "))
}

// checkRules checks patterns and labels.
func checkRules(s schema.SourceSettings) error {
	for field, patterns := range map[string][]string{"body.include": s.Include, "body.exclude": s.Exclude} {
		for i, p := range patterns {
			if err := schema.CheckLength(fmt.Sprintf("%s[%d]", field, i), p, 1, schema.MaxExternalID); err != nil {
				return err
			}
		}
		if err := source.CheckPatterns(patterns); err != nil {
			return schema.Invalid(field, "%s", err)
		}
	}
	for i, label := range s.Labels {
		field := fmt.Sprintf("body.labels[%d]", i)
		if err := schema.CheckLength(field, label, 1, schema.MaxLabel); err != nil {
			return err
		}
		if schema.Reserved(label) {
			return schema.Invalid(field, "%q is reserved by the system", label)
		}
	}
	return nil
}

// set checks the values of a driver's fields, merges them into the earlier ones, and encrypts the
// secrets among them.
func (a sourceAPI) set(s *schema.SourceSettings, tenant, id uuid.UUID, driver schema.SourceDriver, values, had, secret map[string]string) error {
	plain, hidden := maps.Clone(had), maps.Clone(secret)
	if plain == nil {
		plain = map[string]string{}
	}
	if hidden == nil {
		hidden = map[string]string{}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value, at := values[name], "body.settings."+name
		i := slices.IndexFunc(driver.Fields, func(f schema.SourceField) bool { return f.Name == name })
		if i < 0 {
			var names []string
			for _, f := range driver.Fields {
				names = append(names, f.Name)
			}
			return schema.Invalid(at, "the driver %s has no such setting; it has: %s", driver.Name, strings.Join(names, ", "))
		}
		field := driver.Fields[i]
		if err := schema.CheckLength(at, value, 0, maxSetting); err != nil {
			return err
		}
		if value != "" && len(field.Values) > 0 && !slices.Contains(field.Values, value) {
			return schema.Invalid(at, "%q is none of: %s", value, strings.Join(field.Values, ", "))
		}
		into := plain
		if field.Secret {
			into = hidden
		}
		if value == "" {
			delete(into, name)
			continue
		}
		into[name] = value
	}
	for _, f := range driver.Fields {
		if f.Required && plain[f.Name] == "" && hidden[f.Name] == "" {
			return schema.Invalid("body.settings."+f.Name, "is missing: %s", f.Summary)
		}
	}
	var err error
	s.Settings, s.SecretFields = plain, slices.Sorted(maps.Keys(hidden))
	s.Sealed, err = a.keys.Seal(tenant, id, hidden)
	return err
}

// ChangeSource implements httpapi.SyncSources.
func (a sourceAPI) ChangeSource(ctx context.Context, p schema.Principal, id uuid.UUID, c api.SourceChange) (schema.Source, error) {
	var driver schema.SourceDriver
	if len(c.Settings) > 0 {
		have, err := a.SourceStore.Source(ctx, p, id)
		if err != nil {
			return have, err
		}
		if driver, err = a.driver(ctx, have.Driver); err != nil {
			return have, err
		}
	}
	return a.withWorkerProblem(ctx)(a.SourceStore.ChangeSource(ctx, p, id, func(have schema.Source, sealed []byte) (schema.SourceSettings, error) {
		return a.changed(p.Tenant, driver, have, sealed, c)
	}))
}

// changed returns the settings of a source after a change.
func (a sourceAPI) changed(tenant uuid.UUID, driver schema.SourceDriver, have schema.Source, sealed []byte, c api.SourceChange) (schema.SourceSettings, error) {
	to := schema.SourceSettings{Settings: have.Settings, Sealed: sealed, SecretFields: have.Secrets, Include: have.Include, Exclude: have.Exclude, Labels: have.Labels,
		MaxBytes: have.MaxBytes, MaxItems: have.MaxItems, MaxShorter: have.MaxShorter, Every: have.Every}
	setIfGiven(c.Include, &to.Include)
	setIfGiven(c.Exclude, &to.Exclude)
	setIfGiven(c.Labels, &to.Labels)
	setIfGiven(c.MaxBytes, &to.MaxBytes)
	setIfGiven(c.MaxItems, &to.MaxItems)
	setIfGiven(c.MaxShorter, &to.MaxShorter)
	setIfGiven(c.Every, &to.Every)
	if err := checkRules(to); err != nil {
		return to, err
	}
	follows := have.Settings[source.PermissionsSetting] == source.FollowPermissions
	if now, set := c.Settings[source.PermissionsSetting]; set && (now == source.FollowPermissions) != follows {
		return to, schema.Invalid("body.settings."+source.PermissionsSetting, "cannot be changed; make another source, and remove this one")
	}
	if follows && len(to.Labels) > 0 {
		return to, schema.Invalid("body.labels", "must be empty where the source's permissions are followed: they alone set the labels of its documents")
	}
	if len(c.Settings) == 0 {
		return to, nil
	}
	secret, err := a.currentSecrets(tenant, have.ID, driver, sealed, c.Settings)
	if err != nil {
		return to, err
	}
	err = a.set(&to, tenant, have.ID, driver, c.Settings, have.Settings, secret)
	return to, err
}

// currentSecrets returns the secrets of a source. If they cannot be decrypted but a change replaces
// all that are required, it returns none.
func (a sourceAPI) currentSecrets(tenant, id uuid.UUID, driver schema.SourceDriver, sealed []byte, values map[string]string) (map[string]string, error) {
	secret, err := a.keys.Open(tenant, id, sealed)
	if err == nil {
		return secret, nil
	}
	for _, f := range driver.Fields {
		if _, anew := values[f.Name]; f.Secret && f.Required && !anew {
			return nil, err
		}
	}
	return nil, nil
}

// setIfGiven sets *to if value is not nil.
func setIfGiven[T any](value, to *T) {
	if value != nil {
		*to = *value
	}
}

// Source implements httpapi.SyncSources.
func (a sourceAPI) Source(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Source, error) {
	return a.withWorkerProblem(ctx)(a.SourceStore.Source(ctx, p, id))
}

// withWorkerProblem adds the problem that no worker runs for a source, if it has no other.
func (a sourceAPI) withWorkerProblem(ctx context.Context) func(schema.Source, error) (schema.Source, error) {
	return func(s schema.Source, err error) (schema.Source, error) {
		if err != nil || s.Problem != "" || s.State == schema.SourcePaused {
			return s, err
		}
		drivers, err := a.SourceDrivers(ctx)
		if err == nil && !slices.ContainsFunc(drivers, func(d schema.SourceDriver) bool { return d.Name == s.Driver && d.Running }) {
			s.Problem = fmt.Sprintf("no source-worker with the driver %s runs; the source waits for one", s.Driver)
		}
		return s, err
	}
}

// PreviewSource implements httpapi.SyncSources.
func (a sourceAPI) PreviewSource(ctx context.Context, p schema.Principal, id uuid.UUID, limit int) (schema.SourcePreview, error) {
	reply, err := bus.Request[wire.SourcePreviewReply](ctx, a.nats, wire.SourcePreviewSubject,
		wire.SourcePreviewRequest{Envelope: wire.Header(), Principal: p, Source: id, Limit: limit, Deadline: deadline(ctx)}, bus.SignedBy(a.signer))
	if err != nil {
		return schema.SourcePreview{}, fmt.Errorf("ask a source-worker for a preview: %w", err)
	}
	if reply.Error != nil {
		return schema.SourcePreview{}, reply.Error
	}
	return reply.SourcePreview, nil
}

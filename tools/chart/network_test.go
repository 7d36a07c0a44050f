package chart

// This file checks that the network policies allow necessary connections and no others.

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// egress has the addresses to which the programs of the default installation may connect, without
// DNS.
var egress = map[string][]string{
	"serve":         {"nats:4222", "postgres:5432", "temporal:7233"},
	"ingest-worker": {"nats:4222", "postgres:5432", "temporal:7233"},
	"query-worker":  {"nats:4222", "postgres:5432", "temporal:7233", "outside:443"}, // webhooks
	"llm-gateway":   {"nats:4222", "outside:443", "postgres:5432"},
	"source-worker": {"nats:4222", "postgres:5432", "temporal:7233", "outside:22", "outside:80", "outside:443", "outside:993"},
	"gpu-segmenter": {"nats:4222"},
	"migrate":       {"postgres:5432"},
	"temporal":      {"postgres:5432", "temporal:any"},
	"nats":          {"nats:6222"},
	"postgres":      {},
}

func TestProgramsReachWhatTheyNeedAlone(t *testing.T) {
	in, err := render(t, values(t, "sourceWorker: {enabled: true}"), false)
	if err != nil {
		t.Fatal(err)
	}
	for component, want := range egress {
		policy := in.find("NetworkPolicy", "sluice-"+component)
		if policy == nil {
			t.Errorf("%s has no policy", component)
			continue
		}
		var got []string
		for _, rule := range list(policy, "spec", "egress") {
			ports := list(rule, "ports")
			if len(ports) == 0 {
				ports = []map[string]any{{"port": "any"}}
			}
			for _, to := range list(rule, "to") {
				where := at[string](to, "podSelector", "matchLabels", "app.kubernetes.io/component")
				if where == "" {
					where = "outside"
				}
				for _, port := range ports {
					if port["port"] != 53.0 {
						got = append(got, fmt.Sprintf("%s:%v", where, port["port"]))
					}
				}
			}
			if len(list(rule, "to")) == 0 {
				t.Errorf("%s may connect to everything", component)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("%s may connect to %q, want %q", component, got, want)
		}
	}
}

// TestWhatTenantsNameIsNoPrivateAddress: the policies also keep webhooks and sources from private
// addresses, although the programs check them themselves.
func TestWhatTenantsNameIsNoPrivateAddress(t *testing.T) {
	in, err := render(t, values(t, "sourceWorker: {enabled: true}"), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"query-worker", "source-worker"} {
		checked := 0
		for _, rule := range list(in.find("NetworkPolicy", "sluice-"+program), "spec", "egress") {
			for _, to := range list(rule, "to") {
				block := at[map[string]any](to, "ipBlock")
				if block["cidr"] != "0.0.0.0/0" {
					continue
				}
				checked++
				for _, private := range []any{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "127.0.0.0/8", "100.64.0.0/10"} {
					if !slices.Contains(at[[]any](block, "except"), private) {
						t.Errorf("%s may connect to %v", program, private)
					}
				}
			}
		}
		if checked == 0 {
			t.Errorf("%s may connect to nothing outside", program)
		}
	}
}

// TestNothingIsCutOffWhilePoliciesCome: Helm creates the policies in this order, and a network
// plug-in may enforce the first before the last exists.
func TestNothingIsCutOffWhilePoliciesCome(t *testing.T) {
	in, err := render(t, values(t), true)
	if err != nil {
		t.Fatal(err)
	}
	all := in.of("NetworkPolicy")
	if last := all[len(all)-1].name(); last != "sluice-deny" {
		t.Errorf("the last policy is %s, want sluice-deny", last)
	}
}

// TestPoliciesAreOfPodsThatThereAre: selectors match pods, and the pods listen on the policies'
// ports.
func TestPoliciesAreOfPodsThatThereAre(t *testing.T) {
	each(t, func(t *testing.T, in installation) {
		pods := in.pods()
		for _, c := range in.of("Cluster") { // pods made by the operator
			pods = append(pods, pod{labels: map[string]any{"cnpg.io/cluster": c.name()}})
		}
		for _, c := range in.of("Pooler") {
			pods = append(pods, pod{labels: map[string]any{"cnpg.io/poolerName": c.name()}})
		}
		taken := func(selector map[string]any) (out []pod) {
			for _, p := range pods {
				if matches(selector, p.labels) {
					out = append(out, p)
				}
			}
			return out
		}
		covered := map[string]bool{}
		for _, policy := range in.of("NetworkPolicy") {
			of := taken(at[map[string]any](policy, "spec", "podSelector"))
			if len(of) == 0 {
				t.Errorf("policy %s is of no pod", policy.name())
			}
			for _, p := range of {
				if p.owner != nil {
					covered[p.owner.name()+" "+policy.name()] = true
				}
			}
			listens := func(p pod, port any) bool {
				return p.owner == nil || slices.ContainsFunc(p.containers(), func(c map[string]any) bool {
					return slices.ContainsFunc(list(c, "ports"), func(has map[string]any) bool { return has["containerPort"] == port || has["name"] == port })
				})
			}
			for _, direction := range []string{"ingress", "egress"} {
				for _, rule := range list(policy, "spec", direction) {
					for _, peer := range slices.Concat(list(rule, "from"), list(rule, "to")) {
						selector := at[map[string]any](peer, "podSelector")
						if selector == nil {
							continue
						}
						to := taken(selector)
						if len(to) == 0 {
							t.Errorf("policy %s: %s is of no pod: %v", policy.name(), direction, selector)
						}
						for _, port := range list(rule, "ports") {
							if direction == "egress" && !slices.ContainsFunc(to, func(p pod) bool { return listens(p, port["port"]) }) {
								t.Errorf("policy %s: nobody in %v listens on %v", policy.name(), selector, port["port"])
							}
						}
					}
					for _, port := range list(rule, "ports") {
						if direction == "ingress" && !slices.ContainsFunc(of, func(p pod) bool { return listens(p, port["port"]) }) {
							t.Errorf("policy %s: its pods don't listen on %v", policy.name(), port["port"])
						}
					}
				}
			}
		}
		if in.find("NetworkPolicy", "sluice-deny") == nil {
			return // policies are disabled
		}
		for _, p := range in.pods() {
			own := slices.ContainsFunc(slices.Collect(maps.Keys(covered)), func(of string) bool {
				return strings.HasPrefix(of, p.owner.name()+" ") && !strings.HasSuffix(of, " sluice-deny")
			})
			if !own || !covered[p.owner.name()+" sluice-deny"] {
				t.Errorf("%s: nothing is denied, or all: it has policies %v", p.owner.name(), covered)
			}
		}
	})
}

// TestWhoMayConnectIsLetIn: if the policy of one pod allows a connection to another one, the policy
// of the other pod accepts it.
func TestWhoMayConnectIsLetIn(t *testing.T) {
	each(t, func(t *testing.T, in installation) {
		for _, from := range in.pods() {
			policy := in.find("NetworkPolicy", "sluice-"+from.owner.component())
			for _, rule := range list(policy, "spec", "egress") {
				for _, to := range list(rule, "to") {
					selector := at[map[string]any](to, "podSelector")
					for _, target := range in.pods() {
						if selector == nil || !matches(selector, target.labels) || target.owner.component() == from.owner.component() {
							continue
						}
						for _, port := range list(rule, "ports") {
							let := slices.ContainsFunc(list(in.find("NetworkPolicy", "sluice-"+target.owner.component()), "spec", "ingress"), func(r map[string]any) bool {
								return slices.ContainsFunc(list(r, "ports"), func(p map[string]any) bool { return p["port"] == port["port"] }) &&
									slices.ContainsFunc(list(r, "from"), func(f map[string]any) bool { return matches(at[map[string]any](f, "podSelector"), from.labels) })
							})
							if !let {
								t.Errorf("%s may connect to %s at %v, which does not let it in", from.owner.name(), target.owner.name(), port["port"])
							}
						}
					}
				}
			}
		}
	})
}

// TestServicesLeadToPods: selectors and port names of Services match pods, and addresses in
// settings are names of Services.
func TestServicesLeadToPods(t *testing.T) {
	each(t, func(t *testing.T, in installation) {
		hosts := []string{"db.example", "nats.example", "temporal.example"}
		for _, s := range in.of("Service") {
			hosts = append(hosts, s.name())
			found := false
			for _, p := range in.pods() {
				if !p.job && matches(at[map[string]any](s, "spec", "selector"), p.labels) {
					found = true
					for _, port := range list(s, "spec", "ports") {
						if !slices.ContainsFunc(list(p.spec, "containers"), func(c map[string]any) bool {
							return slices.ContainsFunc(list(c, "ports"), func(has map[string]any) bool { return has["name"] == port["targetPort"] })
						}) {
							t.Errorf("Service %s: %s has no port %v", s.name(), p.owner.name(), port["targetPort"])
						}
					}
				}
			}
			if !found {
				t.Errorf("Service %s leads to no pod", s.name())
			}
		}
		for _, c := range in.of("Cluster") {
			hosts = append(hosts, c.name()+"-rw", c.name()+"-ro")
		}
		for _, c := range in.of("Pooler") {
			hosts = append(hosts, c.name())
		}
		for _, p := range in.pods() {
			for _, c := range p.containers() {
				for _, name := range []string{"SLUICE_NATS_URL", "SLUICE_TEMPORAL_ADDRESS", "SLUICE_DATABASE_URL", "SLUICE_DATABASE_OWNER_URL", "SLUICE_DATABASE_VECTOR_URL", "SLUICE_DATABASE_DIRECT_URL", "SLUICE_DATABASE_REPLICA_URL", "POSTGRES_SEEDS"} {
					address, _ := environment(c)[name]["value"].(string)
					if address == "" {
						continue
					}
					_, host, found := strings.Cut(address, "@")
					if !found {
						host = address[strings.LastIndex(address, "/")+1:]
					}
					if host, _, _ = strings.Cut(host, ":"); !slices.Contains(hosts, host) {
						t.Errorf("%s: %s is %s, but there is no host %s", p.owner.name(), name, address, host)
					}
				}
			}
		}
		for _, i := range in.of("Ingress") {
			for _, rule := range list(i, "spec", "rules") {
				for _, path := range list(rule, "http", "paths") {
					s := in.find("Service", at[string](path, "backend", "service", "name"))
					if !slices.ContainsFunc(list(s, "spec", "ports"), func(p map[string]any) bool {
						return p["name"] == at[string](path, "backend", "service", "port", "name")
					}) {
						t.Errorf("Ingress %s leads to %v", i.name(), path["backend"])
					}
				}
			}
		}
		for _, m := range in.of("ServiceMonitor") {
			for component := range programs {
				s := in.find("Service", "sluice-"+component)
				if s == nil {
					continue
				}
				if !matches(at[map[string]any](m, "spec", "selector"), at[map[string]any](s, "metadata", "labels")) ||
					!slices.ContainsFunc(list(s, "spec", "ports"), func(p map[string]any) bool { return p["name"] == list(m, "spec", "endpoints")[0]["port"] }) {
					t.Errorf("the metrics of %s are not looked at", component)
				}
			}
		}
	})
}

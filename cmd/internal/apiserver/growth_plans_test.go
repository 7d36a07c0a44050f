//go:build cgo

package apiserver_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"regexp"
	"strings"
)

// Buffers that a statement may touch more at the larger size: a share; and, as
// rows that shared a page of a small table don't share one of a large table, and
// indexes have a level more, some for each row that is returned, locked, or changed
// in all its indexes. Batches bound these rows. A row that is looked up by its id
// costs the levels of the primary key and its own page, however large the table
// is; a small table is read whole for less. More such rows than a batch has are
// no lookup but a walk, and count nothing. The first run in a session reads the
// catalog, too, and the first change of a table the constraints that refer to it: on a
// loaded machine as many runs as there are sessions may be first ones.
const (
	growthShare       = 1.2
	growthRest        = 6
	growthReturned    = 2
	growthLocked      = 1
	growthChanged     = 14
	growthLookup      = 4
	growthBatch       = 500
	growthCatalog     = 32
	growthConstraints = 64
	growthSessions    = 4
)

// logged matches an entry of auto_explain in the server's log.
var logged = regexp.MustCompile(`(?m)^.*LOG:  duration: .* plan:\n((?:\t.*\n)+)`)

// byID matches the condition of an index scan for known ids.
var byID = regexp.MustCompile(`\(id = `)

// statementUse has the buffers that runs of a statement touched.
type statementUse struct {
	buffers float64
	allowed float64 // additional buffers for rows that were returned, locked, changed or looked up
	times   int
	changes bool
	plan    string
}

func (u statementUse) mean() float64 { return u.buffers / max(float64(u.times), 1) }

// maxBuffers returns how many buffers a run may touch on average, given the average at the smaller
// size.
func (u statementUse) maxBuffers(before float64) float64 {
	first := float64(growthCatalog)
	if u.changes {
		first += growthConstraints
	}
	return growthShare*before + growthRest + (u.allowed+first*min(float64(u.times), growthSessions))/float64(u.times)
}

// explained parses the statements in the server's log since the last call.
func (g *growthTest) explained() map[string]statementUse {
	g.t.Helper()
	text, err := os.ReadFile(g.log)
	if err != nil {
		g.t.Fatal(err)
	}
	fresh := string(text[g.read:])
	g.read = int64(len(text))
	out := map[string]statementUse{}
	for _, entry := range logged.FindAllStringSubmatch(fresh, -1) {
		var explained struct {
			Query string `json:"Query Text"`
			Plan  map[string]any
		}
		if err := json.Unmarshal([]byte(strings.ReplaceAll(entry[1], "\n\t", "\n")), &explained); err != nil {
			g.t.Fatalf("%v: %s", err, entry[1])
		}
		u := out[explained.Query]
		for _, kind := range []string{
			"Shared Hit Blocks", "Shared Read Blocks", "Local Hit Blocks", "Temp Read Blocks", "Temp Written Blocks",
		} {
			n, _ := explained.Plan[kind].(float64)
			u.buffers += n
		}
		u.allowed += allowance(explained.Plan)
		if n := keyLookups(explained.Plan); n <= growthBatch {
			u.allowed += growthLookup * n
		}
		u.times++
		u.changes = u.changes || changedRows(explained.Plan) > 0
		u.plan = outline(explained.Plan, "")
		out[explained.Query] = u
	}
	return out
}

// allowance returns the additional buffers for a plan's rows, those that a WITH changes included.
func allowance(plan map[string]any) float64 {
	rows, _ := plan["Actual Rows"].(float64)
	if plan["Node Type"] == "ModifyTable" {
		rows = 0 // what RETURNING reads was changed
	}
	return growthReturned*rows + growthLocked*lockedRows(plan) + growthChanged*changedRows(plan)
}

// changedRows returns the number of rows that a plan changes.
func changedRows(plan map[string]any) float64 {
	var n float64
	for node := range nodes(plan) {
		children, _ := node["Plans"].([]any)
		if node["Node Type"] != "ModifyTable" || len(children) == 0 {
			continue
		}
		source, _ := children[len(children)-1].(map[string]any) // earlier children belong to WITH and sub-selects
		rows, _ := source["Actual Rows"].(float64)
		n += rows
	}
	return n
}

// lockedRows returns the number of rows that a plan locks.
func lockedRows(plan map[string]any) float64 {
	var n float64
	for node := range nodes(plan) {
		if node["Node Type"] == "LockRows" {
			rows, _ := node["Actual Rows"].(float64)
			n += rows
		}
	}
	return n
}

// keyLookups returns the number of rows that a plan finds by known primary keys.
func keyLookups(plan map[string]any) float64 {
	var n float64
	for node := range nodes(plan) {
		index, _ := node["Index Name"].(string)
		condition, _ := node["Index Cond"].(string)
		if strings.HasSuffix(index, "_pkey") && byID.MatchString(condition) {
			rows, _ := node["Actual Rows"].(float64)
			removed, _ := node["Rows Removed by Filter"].(float64)
			loops, _ := node["Actual Loops"].(float64)
			n += (rows + removed) * loops
		}
	}
	return n
}

// nodes returns a plan's nodes, the plan itself first.
func nodes(plan map[string]any) iter.Seq[map[string]any] {
	return func(yield func(map[string]any) bool) { walk(plan, yield) }
}

func walk(plan map[string]any, yield func(map[string]any) bool) bool {
	if !yield(plan) {
		return false
	}
	children, _ := plan["Plans"].([]any)
	for _, c := range children {
		if child, ok := c.(map[string]any); ok && !walk(child, yield) {
			return false
		}
	}
	return true
}

// outline formats a plan's nodes, one per line.
func outline(plan map[string]any, indent string) string {
	line := indent + fmt.Sprint(plan["Node Type"])
	for _, key := range []string{
		"Relation Name", "Index Name", "Index Cond", "Filter", "Rows Removed by Filter",
		"Actual Rows", "Actual Loops", "Shared Hit Blocks",
	} {
		if v, ok := plan[key]; ok {
			line += fmt.Sprintf(" [%v]", v)
		}
	}
	line += "\n"
	children, _ := plan["Plans"].([]any)
	for _, c := range children {
		if child, ok := c.(map[string]any); ok {
			line += outline(child, indent+"  ")
		}
	}
	return line
}

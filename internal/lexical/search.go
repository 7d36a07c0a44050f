package lexical

// StatisticsCache remembers statistics of one list of segments and one set of
// dead entries. Many goroutines may use it.
type StatisticsCache struct{}

// NewStatisticsCache returns an empty cache.
func NewStatisticsCache() *StatisticsCache { return &StatisticsCache{} }

// Bytes is about what the cache takes in memory.
func (c *StatisticsCache) Bytes() int { return 0 }

// Search finds the K best units, exactly. The view must hold the pages of
// q.Needs().
func Search(v *View, q Query) (Result, error) { return Result{}, errUnfinished }

package compare

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

// keysPerState is how many keys keysOf returns.
const keysPerState = 5

// keysOf returns the keys of a limiter as the client with this id sees it:
// hash, value, permits, its own value, its own permits.
func keysOf(name, id string) []string {
	value, permits := "{"+name+"}:value", "{"+name+"}:permits"
	return []string{name, value, permits, value + ":" + id, permits + ":" + id}
}

// readScript reads several limiters at one moment, by five keys each.
var readScript = redis.NewScript(`
local all = {}
for i = 1, #KEYS, 5 do
  local one = { redis.call('HGETALL', KEYS[i]), redis.call('PTTL', KEYS[i]) }
  for j = i + 1, i + 3, 2 do
    one[#one + 1] = redis.call('GET', KEYS[j])
    one[#one + 1] = redis.call('PTTL', KEYS[j])
    one[#one + 1] = redis.call('ZRANGE', KEYS[j + 1], 0, -1, 'WITHSCORES')
    one[#one + 1] = redis.call('PTTL', KEYS[j + 1])
  end
  all[#all + 1] = one
end
return all`)

// readStates reads the states under keys, which are keysOf of each limiter.
func readStates(ctx context.Context, rdb redis.UniversalClient, keys []string) ([]state, error) {
	reply, err := readScript.Run(ctx, rdb, keys).Slice()
	if err != nil {
		return nil, err
	}
	var d decoder
	var all []state
	for _, one := range reply {
		all = append(all, d.state(take[[]any](&d, one)))
	}
	return all, d.err
}

// A decoder decodes replies of readScript. It keeps the first error; what it
// returns then is of no use.
type decoder struct{ err error }

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// take returns a part of a reply as a T.
func take[T any](d *decoder, part any) T {
	v, ok := part.(T)
	if !ok {
		d.fail(fmt.Errorf("compare: a reply holds a %T instead of a %T", part, v))
	}
	return v
}

func (d *decoder) state(one []any) (st state) {
	if len(one) != 2+2*4 {
		d.fail(fmt.Errorf("compare: a state of %d parts", len(one)))
		return st
	}
	fields := take[[]any](d, one[0])
	for i := 0; i+1 < len(fields); i += 2 {
		if st.hash == nil {
			st.hash = map[string]string{}
		}
		if name := take[string](d, fields[i]); !strings.HasPrefix(name, "session:") {
			st.hash[name] = take[string](d, fields[i+1])
		}
	}
	st.ends = d.end(one[1])
	for i := range st.pairs {
		p, got := &st.pairs[i], one[2+4*i:]
		if got[0] != nil {
			p.value = take[string](d, got[0])
		}
		p.valueEnds, p.recordsEnds = d.end(got[1]), d.end(got[3])
		p.records = d.records(take[[]any](d, got[2]))
	}
	return st
}

// end returns when a key with this PTTL ends.
func (d *decoder) end(pttl any) int64 {
	if ms := take[int64](d, pttl); ms >= 0 {
		return time.Now().UnixMilli() + ms
	}
	return 0
}

func (d *decoder) records(flat []any) (records []record) {
	for i := 0; i+1 < len(flat); i += 2 {
		member, score := take[string](d, flat[i]), take[string](d, flat[i+1])
		if len(member) != 21 || member[0] != 16 {
			d.fail(fmt.Errorf("compare: %q is no record of Redisson 3.21 and later", member))
			return nil
		}
		permits, err := wire.Permits(member)
		if err != nil {
			d.fail(err)
		}
		at, err := strconv.ParseInt(score, 10, 64)
		if err != nil {
			d.fail(fmt.Errorf("compare: the time of a record is no integer: %w", err))
		}
		_, byGo := wire.Recognise(member)
		records = append(records, record{at, permits, byGo})
	}
	return records
}

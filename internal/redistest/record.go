package redistest

import (
	"encoding/binary"
	"fmt"
)

// JavaRecord returns a record of permits as Redisson 4.7.0 writes it, with n in place of the random
// bytes: other numbers make other records.
func JavaRecord(n int64, permits uint32) string {
	return string(binary.LittleEndian.AppendUint32(fmt.Appendf(nil, "\x10%016d", n), permits))
}

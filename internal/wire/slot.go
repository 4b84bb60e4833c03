package wire

// Slots is how many slots a cluster has.
const Slots = 16384

// Slot returns the slot of a cluster in which a key lives: CRC-16/XMODEM of its
// hash tag, as the specification of Redis Cluster has it.
func Slot(key string) int {
	const polynomial, bits, highest = 0x1021, 8, 0x8000
	var crc uint16
	for _, b := range []byte(tag(key)) {
		crc ^= uint16(b) << bits
		for range bits {
			carry := crc & highest
			crc <<= 1
			if carry != 0 {
				crc ^= polynomial
			}
		}
	}
	return int(crc) % Slots
}

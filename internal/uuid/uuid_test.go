package uuid

import "testing"

func TestText(t *testing.T) {
	const text = "VWIK6o4MSWaexSSjrBBzoQ"
	id, err := Parse(text)
	if err != nil || Text(id) != text || id[0] != 0x55 || id[15] != 0xa1 {
		t.Errorf("%x, %v", id, err)
	}
	if padded, err := Parse(text + "=="); err != nil || padded != id {
		t.Errorf("with padding: %x, %v", padded, err)
	}
}

func TestNotAUUID(t *testing.T) {
	for _, text := range []string{"", "AAAA", "VWIK6o4MSWaexSSjrBBzoQAA", "VWIK6o4MSWaexSSjrBBzo+", "55620aea-8e0c-4966-9ec5-24a3ac1073a1"} {
		if id, err := Parse(text); err == nil {
			t.Errorf("%q is taken for %x", text, id)
		}
	}
}

func TestNew(t *testing.T) {
	for range 1000 {
		id := New()
		if again, err := Parse(Text(id)); err != nil || again != id || Text(id)[0] == '-' || id[6]>>4 != 4 || id[8]>>6 != 2 {
			t.Fatalf("%x, %s", id, Text(id))
		}
	}
}

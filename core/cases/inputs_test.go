package cases

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strings"
	"testing"

	"github.com/hawkeye-audit/hawkeye/core/format"
)

func hexOf(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// The hashes of this file were computed with tests/goldens/inputs.py: sha256 of A, then B, over all seeds and sizes below
// in this order, little endian.

var hashedSeeds = []uint64{0, 1, 943213, 1<<40 + 12345}

// hashedSizes are batch, m, n, k: k of 1 to 4 leave cancel no pair or one, and a size of 0 leaves nothing.
var hashedSizes = [][4]int{
	{1, 3, 5, 1}, {1, 5, 3, 2}, {2, 3, 5, 3}, {1, 2, 3, 4}, {3, 2, 7, 5}, {1, 7, 3, 13}, {2, 1, 1, 64}, {1, 11, 9, 37},
	{0, 3, 2, 4}, {1, 0, 3, 5}, {2, 3, 0, 5}, {1, 3, 2, 0},
}

var operandHashes = []struct {
	a, b  format.Format
	kinds map[string]string
}{
	{format.F16, format.F16, map[string]string{
		"normal": "75992740b3f74fa02f8819c1b290af864f34d9b37cadbf80baa6089c631de98e",
		"wide":   "0ae44fcc61d6ca4a83ae660e61d8e9324edad8b6263b07cb872974e433c016c8",
		"tiny":   "aa8280162a242a2841f5e8ac67910568b1ff4255633958e56b8d2a2313a8a856",
		"sparse": "c826c82be89953289f1e623043cb63c01dd2b7b5fd18a63b4c36672c8b4e2fd2",
		"bits":   "ad86126453c200d7b89072c64897af2677bba79df3e6c8c7976e9c46d7241461",
		"cancel": "ca7f5cb54cbf9016556e57f5f91d79ed2d401478d096317fceeb8f975b4c079f",
		"ones":   "49d830d318aa106931cfa38da1a39f7429c797bd150772b23008a3555341c97d",
	}},
	{format.BF16, format.BF16, map[string]string{
		"normal": "22465bf746c0bfacce0f47aa87884b65b78e0eb23bdb143ac15e0d4ef07ad51e",
		"wide":   "4307af867ccf87462f6fec8ff95d16b406ccffabd99af8610dcfecff727a6ccc",
		"tiny":   "0a0fccd8c580bce83dc6cbc7fe4776c3ab70eddbe3e0d74547241a9eb7e89bf1",
		"sparse": "572ec3d310ab227270c246343555b60f5cd5c064416e64fcb16a4bf0110edfb7",
		"bits":   "ad86126453c200d7b89072c64897af2677bba79df3e6c8c7976e9c46d7241461",
		"cancel": "a6a63694aa27c1c80d5755e868d55d3997f378008dce6558221e33e824bc7d27",
		"ones":   "ad79ab081c5c70ace679d8d0cd0e44738711206426aa0874995168a8bdcbc269",
	}},
	{format.F32, format.F32, map[string]string{
		"normal": "f3f3faa03baecd0cf098f208660e2f086b033e1a48c211a68e27a76daa4def52",
		"wide":   "8da134ef7dc1d8d57430af2a47f127fd4c986a00bf015e3a71eda33fdccbf541",
		"tiny":   "e09e0066dff78ade73121a4d7cb7bfd22a0f65b39351cf7981bcbb64df81f254",
		"sparse": "d8f59a514bfac8d5018b42a5cdf7e233b10cbf110920912e36edb53891588f95",
		"bits":   "41a5beb947cc640ece43b93e2a93e2165bdb4d573bebdf0437abebec637a0775",
		"cancel": "99b204a860d39612a5ed8ed14c520a912224e60fd62a1c2338b404fe2b51c2fe",
		"ones":   "3190a080ff62c9c1b6942f8dec3d20563126f3ddf99f4cfe7322a7235a73cd08",
	}},
	{format.F64, format.F64, map[string]string{
		"normal": "a6166ee9763606c046d634ec6ecc4c61e43965e204d327b267a8d3f2006d7693",
		"wide":   "ad118de51e8ca1e4fdc7bdd0e41f04d0f888a156c983d622a72013bf661ae387",
		"tiny":   "9737a0582216e79dec1299d6c044502e61326bb820cb38237ce81b69b07c1cee",
		"sparse": "8406a41ae033f854a61f3e39afb1e1b3c3a2701cb6f07765deedfc28606ce11f",
		"bits":   "bc3511c5f1f0c76fff546ad30c21ce552710e1de2b91262a4146961bfe81afaf",
		"cancel": "923ea2c4c5fc5adc879e115c8569fdc5d48af76138e7257412c787477c012b0e",
		"ones":   "5ff48cf1f1df94dd66ece31b91f3e90a1f66559658484c8d007b26dc3049ac92",
	}},
	{format.E4M3, format.E4M3, map[string]string{
		"normal": "aeba3be89b08e470a4bb297935943651a2fe28979e8cbcb038c922bb1679acb8",
		"wide":   "9954de380ba0ea458542fc82a30042138c7d6767a6dcbbdd99356785184d5bf4",
		"tiny":   "ff3dce55552a20bacab69fae2a93e1036806157e5e69f56621675ef84d5f7d83",
		"sparse": "309c000d2a53285d05896c98c9c546874e34e93487a56d5b87d4a3c8ebfe36db",
		"bits":   "315370a5cfcf20327bb4bedb102f173698df6dadd96f17a38f708d2a6e999fa2",
		"cancel": "55ac4260323519528c50c9c3eb10cd82348c071ba4d48eb21dddb70cc344dec2",
		"ones":   "0e9c08711fac2b93161c6200f3da6098cb73afca7f4a11d501233e7d33c4afba",
	}},
	{format.E5M2, format.E5M2, map[string]string{
		"normal": "2243b6eb78256effe15636e9be6ed74fa4b438fd3248edc29c018df79d28eba1",
		"wide":   "ea6ab7a4dce5ddd1ec1d83707b88a1c35f80c29eae4d94bc650b3c0134d4cc4f",
		"tiny":   "f95338b2952554de4d259558e64d727478f675a93d28c0d38dc0870f02a54c38",
		"sparse": "e35682ad5e4cbc26359c441bcf5b3e2b159a994bac420432409d55c00c636c7e",
		"bits":   "315370a5cfcf20327bb4bedb102f173698df6dadd96f17a38f708d2a6e999fa2",
		"cancel": "a34cf4a9fa5680eec97213f6b72a680aef71ca353265c288af9b348a764c49b4",
		"ones":   "cf8abf6f19f82e8e3364f82b1934a3c700c04844e53569974075e24e7e941b97",
	}},
	{format.S8, format.S8, map[string]string{
		"normal": "315370a5cfcf20327bb4bedb102f173698df6dadd96f17a38f708d2a6e999fa2",
		"wide":   "315370a5cfcf20327bb4bedb102f173698df6dadd96f17a38f708d2a6e999fa2",
		"tiny":   "315370a5cfcf20327bb4bedb102f173698df6dadd96f17a38f708d2a6e999fa2",
		"sparse": "315370a5cfcf20327bb4bedb102f173698df6dadd96f17a38f708d2a6e999fa2",
		"bits":   "315370a5cfcf20327bb4bedb102f173698df6dadd96f17a38f708d2a6e999fa2",
		"cancel": "315370a5cfcf20327bb4bedb102f173698df6dadd96f17a38f708d2a6e999fa2",
		"ones":   "315370a5cfcf20327bb4bedb102f173698df6dadd96f17a38f708d2a6e999fa2",
	}},
	{format.E4M3, format.E5M2, map[string]string{
		"normal": "3b9b8d0c6041980a4093096aac4eaefaaabdb9585b5968a308b00355c33fd583",
		"wide":   "d086a1a963d274b8eeeca767a717746880e235e8b5c5b3d6009a45c55a469734",
		"tiny":   "89f7299d71df21aa141fb1152f3fe5d88e30a99b0ce4a61257e3a12b3226d2a2",
		"sparse": "2fe9d4df2f21218be3ae349a3ed11794a740d71b92055fde5ff23a3511fdec52",
		"bits":   "315370a5cfcf20327bb4bedb102f173698df6dadd96f17a38f708d2a6e999fa2",
		"cancel": "7ad279ed9e139f1778d7fed4df27bfb88ee20c97c67b93b3dd5e9e597ecb1032",
		"ones":   "2b9f7c81955421ae3d7a8803247ab0f8eb332d066229158113f65d31186c789d",
	}},
	{format.E5M2, format.E4M3, map[string]string{
		"normal": "0fc3d27c46027fad38eca2d4a111dd106514fde7910e3c3ba7b7b5816d177c93",
		"wide":   "f5e3e370a5896c468506b82615a85abca2ccf1c2680c3b5b75f56d5232d76106",
		"tiny":   "9437b3dc8c7a1d67a6ffe9a502f77416e2a3fd0220a3c902d288c610f9b554b1",
		"sparse": "ff4b4d39ab7177e92749a947c90dd84ee2a4bb350ee8dde4f956ab33389ea8b2",
		"bits":   "315370a5cfcf20327bb4bedb102f173698df6dadd96f17a38f708d2a6e999fa2",
		"cancel": "92851e52b35fa90d620e281ab0c27a01087af8771546ccaf156b3dd13f131ffa",
		"ones":   "51925b7141e71f24b369f2c2ef8e8e5b22e002e388450b45ce12147ec254065f",
	}},
	{format.F16, format.F32, map[string]string{
		"normal": "9c394c5c1b13296d1d07135018c7e9c4e238f7024e406625934f5bfcbfba8128",
		"wide":   "ad6fc8559bbb87a41fa916de18fb7c30d6982390e089e50d34579a0399d0962a",
		"tiny":   "726c790eeb74275011825f37aa5fd567f8736d4e87c7f207a592e9ac5d37b3bf",
		"sparse": "94a1a08c6dc4350d1c6adbb18f12f23b5095879ec2cc99f0b4438040776db84e",
		"bits":   "fcb75a50daa00c9afb3c148d535207567a23241a561bcc2c4d1770410b1a0317",
		"cancel": "68c4d1a909164c82558b4ba835cb669be7ae465459841ae2afa1688f32f2dce1",
		"ones":   "528398c4d395e6768f7f73d02992833fc3320de0ed77f3610f3be624b20175ab",
	}},
}

// TestOperands holds the generator against the Python recipe, whose inputs a GPU has seen.
func TestOperands(t *testing.T) {
	for _, pair := range operandHashes {
		if len(pair.kinds) != len(Kinds) {
			t.Fatalf("%v × %v: %d kinds have a hash, there are %d", pair.a, pair.b, len(pair.kinds), len(Kinds))
		}
		for kind, want := range pair.kinds {
			h := sha256.New()
			for _, seed := range hashedSeeds {
				for _, size := range hashedSizes {
					a, b, err := Operands(pair.a, pair.b, kind, seed, size[0], size[1], size[2], size[3])
					if err != nil {
						t.Fatal(err)
					}
					if len(a) != size[0]*size[1]*size[3]*pair.a.Bytes() || len(b) != size[0]*size[3]*size[2]*pair.b.Bytes() {
						t.Fatalf("%v × %v, %s, %v: %d and %d bytes", pair.a, pair.b, kind, size, len(a), len(b))
					}
					h.Write(a)
					h.Write(b)
				}
			}
			if got := hexOf(h); got != want {
				t.Errorf("%v × %v, %s: sha256 %s, want %s", pair.a, pair.b, kind, got, want)
			}
		}
	}
}

var loweredHashes = map[format.Format]string{
	format.F16:  "45b3996e207e9dcae191b168de3d66952000543d09e0eadfeded3dd31c784dfe",
	format.BF16: "81e725a54ae501e181d57c883ca0341060ef65a66c5ad1fdc2ef60054a149e7f",
	format.F32:  "4aeef8b992a9257895feccd535b29f3efb2e27c45e0cb2a9a3b89b70e9cd2cb4",
	format.F64:  "8a699b1870bcbbe53f429a9edabe3f3934338073572434c97d7e2051698c9411",
	format.E4M3: "5f8e046e3bed4619970a4967d63d43f3251ecf7699c650de34ba2d19b70d09ad",
	format.E5M2: "5d4bdc3c4bf44205fd90a216de9ac06bac5906ae52f6d1d8b04d431f24a614b2",
	format.S8:   "505e539bd5dc304fcb8c1344cf00aa55b5f05bf1038a3638344023d5954edee2",
}

// TestElementsLowered: lower shifts normal, sparse and cancel down to the subnormals, and no other kind.
func TestElementsLowered(t *testing.T) {
	for f, want := range loweredHashes {
		h := sha256.New()
		for _, lower := range []int{0, 1, 7, 40, 300, 2000} {
			for _, kind := range Kinds {
				data, err := Elements(f, kind, 77<<20+7, 101, lower)
				if err != nil {
					t.Fatal(err)
				}
				h.Write(data)
			}
		}
		if got := hexOf(h); got != want {
			t.Errorf("%v: sha256 %s, want %s", f, got, want)
		}
	}
	if len(loweredHashes) != len(recipes) {
		t.Errorf("%d formats have a hash, inputs are made in %d", len(loweredHashes), len(recipes))
	}
}

// TestFirstElements: a few elements in the open, so that a wrong hash above has something to look at.
func TestFirstElements(t *testing.T) {
	for f, want := range map[format.Format][3]uint64{
		format.F16:  {0xc102, 0xc18e, 0xbf32},
		format.BF16: {0xc002, 0xc00e, 0xbfb2},
		format.F32:  {0xc06c8902, 0xc021658e, 0xbfeefb32},
		format.F64:  {0xc00423fc82c0d5b8, 0xc007a763b053d14c, 0xbff0eb31ebd3039a},
		format.E4M3: {0xca, 0xce, 0xc2},
		format.E5M2: {0xc6, 0xc6, 0xc2},
		format.S8:   {0xc1, 0x67, 0x5e},
	} {
		data, err := Elements(f, "normal", 1, 3, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			var word [8]byte
			copy(word[:], data[i*f.Bytes():(i+1)*f.Bytes()])
			if got := binary.LittleEndian.Uint64(word[:]); got != want[i] {
				t.Errorf("%v, element %d: %#x, want %#x", f, i, got, want[i])
			}
		}
	}
	for seed, want := range map[uint64]uint64{0: 0xf88bb8a8724c81ec, 1: 0x71c18690ee42c90b, 12345: 0x2d160e7e5c3f42ca} {
		if got := Word(seed, 3); got != want {
			t.Errorf("Word(%d, 3) = %#x, want %#x", seed, got, want)
		}
	}
	if got := permutation(5, 9); !slices.Equal(got, []int{3, 4, 2, 5, 0, 8, 7, 1, 6}) {
		t.Errorf("permutation(5, 9) = %v", got)
	}
}

// TestCancelPairs: but for the unpaired columns, every product of cancel has its negative in the same sum.
func TestCancelPairs(t *testing.T) {
	for _, f := range []format.Format{format.F16, format.BF16, format.F32, format.F64, format.E4M3, format.E5M2} {
		for _, k := range []int{1, 2, 3, 4, 5, 12, 13} {
			const m, n = 3, 2
			a, b, err := Operands(f, f, "cancel", 17, 1, m, n, k)
			if err != nil {
				t.Fatal(err)
			}
			size := f.Bytes()
			columns := map[string]int{} // by a column of A and the row of B beside it up to its sign: the sum of those signs
			for j := range k {
				var key bytes.Buffer
				for i := range m {
					key.Write(a[(i*k+j)*size : (i*k+j+1)*size])
				}
				row := b[j*n*size : (j+1)*n*size]
				sign := 1
				if row[size-1]&0x80 != 0 {
					sign = -1
				}
				fmt.Fprintf(&key, "%x", relative(row, size))
				columns[key.String()] += sign
			}
			alone := 0
			for _, sum := range columns {
				if sum != 0 {
					alone++
				}
			}
			if want := k - 2*max((k-2)/2, 0); alone != want {
				t.Errorf("%v, k = %d: %d columns without a partner, want %d", f, k, alone, want)
			}
		}
	}
}

// relative is a row of elements with every sign taken relative to the first one's.
func relative(row []byte, size int) []byte {
	row = bytes.Clone(row)
	first := row[size-1] & 0x80
	for i := size - 1; i < len(row); i += size {
		row[i] ^= first
	}
	return row
}

func TestGeneratorErrors(t *testing.T) {
	for _, f := range []format.Format{format.Invalid, format.TF32, format.E2M1, format.U8, format.S32, 99} {
		if _, err := Elements(f, "normal", 1, 1, 0); err == nil || !strings.Contains(err.Error(), "no inputs are made in "+f.String()) {
			t.Errorf("%v: %v", f, err)
		}
		for _, kind := range []string{"normal", "cancel"} {
			for _, pair := range [][2]format.Format{{f, format.F16}, {format.F16, f}} {
				if _, _, err := Operands(pair[0], pair[1], kind, 1, 1, 2, 2, 6); err == nil || !strings.Contains(err.Error(), "no inputs are made in "+f.String()) {
					t.Errorf("%v × %v, %s: %v", pair[0], pair[1], kind, err)
				}
			}
		}
	}
	for _, kind := range []string{"", "Normal", "cancels"} {
		want := fmt.Sprintf("no kind of input is called %q", kind)
		if _, err := Elements(format.F16, kind, 1, 1, 0); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if _, _, err := Operands(format.F16, format.F16, kind, 1, 1, 1, 1, 1); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestSampleIndices: counts and hashes are inputs.py's, of the indices as 64-bit words.
func TestSampleIndices(t *testing.T) {
	for _, s := range []struct {
		count, want int
		hash        string
	}{
		{0, 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		{1, 1, "af5570f5a1810b7af78caf4bc70a660f0df51e42baf91d4de5b2328de0e83dfc"},
		{2, 2, "9d34149fbd1fe777eb238799054c8cbfbce372255f219f8740838def9bfd02db"},
		{8191, 8191, "4d9f70ecf5c8d1346e40aaaf00572f3517f9262fb49d2516a42fff1e8fdbb493"},
		{8192, 8192, "d7c2866f911c21d6ef9dd404b53dd7516860ff6b088a5135b3b71c81442c0c9e"},
		{8193, 492, "518220581e11261e750bcc2fbbde39a32ed112c6acb3fc67c5e672129e8608f5"},
		{10007, 501, "860c4e0e24d3600a40151d6339dbd229a84c3a01305144277d91eed98f911f55"},
		{1048576, 512, "acd2d92d3dca0e6b738c697f28ff7681c294ce05578a103367a2d772ff195118"},
		{2147483647, 512, "eb5081e11b385e8f688f2aff87fe87c80e43afc0228066dd2209dc6260297aae"},
		{1099511627776, 512, "f297301abf1fca7445e0cf6a54b5bccdf5c85c021e8c980351a1bff9ad296ea0"},
	} {
		list := SampleIndices(s.count)
		h := sha256.New()
		for _, i := range list {
			h.Write(binary.LittleEndian.AppendUint64(nil, uint64(i)))
		}
		if got := hexOf(h); len(list) != s.want || got != s.hash {
			t.Errorf("%d elements: %d samples with sha256 %s, want %d with %s", s.count, len(list), got, s.want, s.hash)
		}
		if !slices.IsSorted(list) || len(list) > 0 && (list[0] < 0 || list[len(list)-1] >= s.count) {
			t.Errorf("%d elements: indices are not ascending or out of range", s.count)
		}
	}
}

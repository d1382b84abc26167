"""The packages that hold versions of curl and libcurl, with their checksums. Data only.

No package registry has curl's releases, but Rust's `curl-sys` contains the source tree of a version (tool and library), and some
Python wheels contain a built libcurl. The checksums are those of cargo's index and of PyPI.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Package:
    """A file of a registry with version `holds` inside. `lacks` names missing features; only wheels have a `platform`."""

    name: str
    version: str
    sha256: str
    holds: str
    platform: str = ""
    lacks: tuple[str, ...] = ()

    @property
    def is_wheel(self) -> bool:
        return bool(self.platform)

    def __str__(self) -> str:
        return f"{self.name} {self.version} of {'PyPI' if self.is_wheel else 'crates.io'}"


# The libraries for every version of curl, the newest of each, so that versions differ only in curl.
NGHTTP2 = Package("libnghttp2-sys", "0.1.13+1.68.1", "492e00167f1418c15648144f42bbfc63099806ecee9bf8d09a6353d6b4856b3c", "1.68.1")
LIBSSH2 = Package("libssh2-sys", "0.3.4", "fce5a0b125f6aeac93b304b35f7f1e9f054aad29ddac57091928e41df3ccd233", "1.11.2_DEV")

# libssh2 -> libssh2-sys, for `curl@8.4.0-libssh2-1.10.1`; the newest crate of each. Their sources are from
# before the release and print 1.10.1_DEV. 1.7.0 cannot be built with OpenSSL 1.1 or later.
_LIBSSH2_CRATES = {
    "1.7.0": ("0.2.0", "6f564ef4a6548bec6f3ea066922eaaa2618f163521bc22ecd72c2cd1c3c08ee1"),
    "1.8.1": ("0.2.11", "126a1f4078368b163bfdee65fbab072af08a1b374a5551b21e87ade27b1fbf9d"),
    "1.9.0": ("0.2.23", "b094a36eb4b8b8c8a7b4b8ae43b2944502be3e59cd87687595cf6b0a71b3f4ca"),
    "1.10.1": ("0.3.0", "2dc8a030b787e2119a731f1951d6a773e2280c660f8ec4b0f5e1505a386e71ee"),
    "1.11.1": ("0.3.3", "0f5eb74291e8691cab524a01274a1b1e7742b1a94f29d8b101d8aadc8372c1cd"),
}

# curl -> curl-sys and its checksum, the newest crate of each. 7.85.0 was yanked; a lock file downloads it all the same.
# 0.4.11 to 0.4.17 hold a state between the releases 7.61.1 and 7.62.0.
_CRATES = {
    "7.60.0": ("0.4.8", "981bd902fcd8b8b999cf71b81447e27d66c3493a7f62f1372866fd32986c0c82"),
    "7.61.1": ("0.4.10", "2edeedbbd9c7cdccb14bfb5dfbcc108901f99d3411eb5bab3758789377c5bec4"),
    "7.64.1": ("0.4.18", "9d91a0052d5b982887d8e829bee0faffc7218ea3c6ebd3d6c2c8f678a93c9a42"),
    "7.65.1": ("0.4.21", "520594da9914c1dc77ce3be450fc1c74fde67c82966d80f8e93c6d460eb0e9ae"),
    "7.66.0": ("0.4.23", "f71cd2dbddb49c744c1c9e0b96106f50a634e8759ec51bcd5399a578700a3ab3"),
    "7.67.0": ("0.4.24", "f659f3ffac9582d6177bb86d1d2aa649f4eb9d0d4de9d03ccc08b402832ea340"),
    "7.68.0": ("0.4.29", "f71ef1d42883527eb80a2262f960728fdf3e9aec961439adeb2ae4dd2f5f9eb6"),
    "7.69.1": ("0.4.30", "923b38e423a8f47a4058e96f2a1fa2865a6231097ee860debd678d244277d50c"),
    "7.70.0": ("0.4.32", "834425a2f22fdd621434196965bf99fbfd9eaed96348488e27b7ac40736c560b"),
    "7.71.1": ("0.4.36", "68cad94adeb0c16558429c3c34a607acc9ea58e09a7b66310aabc9788fc5d721"),
    "7.72.0": ("0.4.37", "5a67fd8165f81261fcd71a9d793fe0993b4f38687fbeb6ef2ad5f5b56edd5ccf"),
    "7.73.0": ("0.4.38", "498ecfb4f59997fd40023d62a9f1e506e768b2baeb59a1d311eb9751cdcd7e3f"),
    "7.74.0": ("0.4.39", "07a8ce861e7b68a0b394e814d7ee9f1b2750ff8bd10372c6ad3bacc10e86f874"),
    "7.75.0": ("0.4.41", "0ec466abd277c7cab2905948f3e94d10bc4963f1f5d47921c1cc4ffd2028fe65"),
    "7.76.0": ("0.4.43", "a802c7a9828b7d139efaed1bc92471ab6681ed86d19a105605f5eadcb0837d11"),
    "7.77.0": ("0.4.44", "4b6d85e9322b193f117c966e79c2d6929ec08c02f339f950044aba12e20bbaf1"),
    "7.78.0": ("0.4.45", "de9e5a72b1c744eb5dd20b2be4d7eb84625070bb5c4ab9b347b70464ab1e62eb"),
    "7.79.0": ("0.4.47", "1ab94a47d9b61f2d905beb7a3d46aba7704c9f1dfcf84e7d178998d9e95f7989"),
    "7.79.1": ("0.4.50", "4856b76919dd599f31236bb18db5f5bd36e2ce131e64f857ca5c259665b76171"),
    "7.80.0": ("0.4.51", "d130987e6a6a34fe0889e1083022fa48cd90e6709a84be3fb8dd95801de5af20"),
    "7.81.0": ("0.4.52", "14b8c2d1023ea5fded5b7b892e4b8e95f70038a421126a056761a84246a28971"),
    "7.82.0": ("0.4.53", "8092905a5a9502c312f223b2775f57ec5c5b715f9a15ee9d2a8591d1364a0352"),
    "7.83.0": ("0.4.54", "25debbc3365c3e7ee79e30918df5759e84dbd4485807a18829188abf1786ec4e"),
    "7.83.1": ("0.4.56", "6093e169dd4de29e468fa649fbae11cdcd5551c81fe5bf1b0677adad7ef3d26f"),
    "7.85.0": ("0.4.57", "c2f5c209fdc3b856c446c52a1f9e90db20ea2b1bbbbd60bc18239174fa6eae70"),
    "7.86.0": ("0.4.59", "6cfce34829f448b08f55b7db6d0009e23e2e86a34e8c2b366269bf5799b4a407"),
    "7.88.1": ("0.4.60", "717abe2cb465a5da6ce06617388a3980c9a2844196734bec8ccb8e575250f13f"),
    "8.0.1": ("0.4.61", "14d05c10f541ae6f3bc5b3d923c20001f47db7d5f0b2bc6ad16490133842db79"),
    "8.1.0": ("0.4.62", "274ef7ef7c1113c7611af49ce248a700afa1171045a1aaa40137030773f993b8"),
    "8.1.2": ("0.4.63", "aeb0fef7046022a1e2ad67a004978f0e3cacb9e3123dc62ce768f92197b771dc"),
    "8.2.0": ("0.4.64", "f96069f0b1cb1241c838740659a771ef143363f52772a9ce1bd9c04c75eee0dc"),
    "8.2.1": ("0.4.65", "961ba061c9ef2fe34bbd12b807152d96f0badd2bebe7b90ce6c8c8b7572a0986"),
    "8.3.0": ("0.4.67", "3cc35d066510b197a0f72de863736641539957628c8a42e70e27c66849e77c34"),
    "8.4.0": ("0.4.68", "b4a0d18d88360e374b16b2273c832b5e57258ffc1d4aa4f96b108e0738d5752f"),
    "8.5.0": ("0.4.70", "3c0333d8849afe78a4c8102a429a446bfdd055832af071945520e835ae2d841e"),
    "8.6.0": ("0.4.72", "29cbdc8314c447d11e8fd156dcdd031d9e02a7a976163e396b548c03153bc9ea"),
    "8.8.0": ("0.4.73", "450ab250ecf17227c39afb9a2dd9261dc0035cb80f2612472fc0c4aac2dcb84d"),
    "8.9.0": ("0.4.74", "8af10b986114528fcdc4b63b6f5f021b7057618411046a4de2ba0f0149a097bf"),
    "8.10.0": ("0.4.75", "2a4fd752d337342e4314717c0d9b6586b059a120c80029ebe4d49b11fec7875e"),
    "8.10.1": ("0.4.77", "f469e8a5991f277a208224f6c7ad72ecb5f986e36d09ae1f2c1bb9259478a480"),
    "8.11.0": ("0.4.78", "8eec768341c5c7789611ae51cf6c459099f22e64a5d5d0ce4892434e33821eaf"),
    "8.12.0": ("0.4.79", "18a9bbeeb3996717ef1248018db20d1b0b5ba7165bff60e3b5135b4f4c2b37a5"),
    "8.12.1": ("0.4.80", "55f7df2eac63200c3ab25bde3b2268ef2ee56af3d238e76d61f01c3c49bff734"),
    "8.14.1": ("0.4.82", "c4d63638b5ec65f1a4ae945287b3fd035be4554bbaf211901159c9a2a74fb5be"),
    "8.15.0": ("0.4.83", "5830daf304027db10c82632a464879d46a3f7c4ba17a31592657ad16c719b483"),
    "8.17.0": ("0.4.84", "abc4294dc41b882eaff37973c2ec3ae203d0091341ee68fbadd1d06e0c18a73b"),
    "8.18.0": ("0.4.85", "c0efa6142b5ecc05f6d3eaa39e6af4888b9d3939273fb592c92b7088a8cf3fdb"),
    "8.19.0": ("0.4.87", "61a460380f0ef783703dcbe909107f39c162adeac050d73c850055118b5b6327"),
    "8.20.0": ("0.4.89", "6d680779285438f2d0927485973ab45b212ea990bddb80de8a55a1e3c1d9ba22"),
    "8.21.0": ("0.4.90", "97799a0d220bfb3361e0fe4936966ff8c4b24d65c3f06dfc70d7b680b44e7897"),
    "8.22.0": ("0.4.91", "cd39579123e45bf762716bb893d43886ed1cabe6289455be29a4f1d4e37afb06"),
}

# Built libcurls, for versions that no crate has. curl_cffi's can imitate browsers; the lab does not use that. pycurl's wheels of
# 8.11.1 and 8.12.1 have libcurl inside their module, where nothing else can link to it.
_WHEELS = {
    "7.84.0": Package(
        name="curl_cffi",
        version="0.5.10",
        sha256="1b2bc8822d23415f6533c8b750475e9bbc76764025fe1dcb5866dc033607fd7b",
        holds="7.84.0",
        platform="manylinux2014_x86_64",
        lacks=("sftp",),
    ),
    "8.16.0": Package(
        name="pycurl",
        version="7.45.7",
        sha256="3d19b4a94c2e20976cbc7773e5398bae19e3bc65a0894fcd01d8477bfc5fdb2f",
        holds="8.16.0",
        platform="manylinux_2_28_x86_64",
    ),
    "8.23.0": Package(
        name="pycurl",
        version="7.49.0",
        sha256="6f88539845d3bb2cf2ce0ccbc1bb8b9ed9e401a0d874798aeabc5f16f0f95c4d",
        holds="8.23.0",
        platform="manylinux_2_28_x86_64",
    ),
}


# Separates the versions of curl and libssh2 in a name.
WITH_LIBSSH2 = "-libssh2-"


def order(version: str) -> tuple[int, ...]:
    """The key to sort versions."""
    return tuple(int(part) for part in version.split("."))


_SOURCES = {
    curl: Package("curl-sys", f"{crate}+curl-{curl}" if order(curl) >= (7, 68) else crate, sha256, curl)
    for curl, (crate, sha256) in _CRATES.items()
}
VERSIONS: dict[str, Package] = {version: _SOURCES[version] for version in sorted(_SOURCES, key=order)}
"""curl, tool and library, oldest first."""
_ALL = {**_SOURCES, **_WHEELS}
LIBCURLS: dict[str, Package] = {version: _ALL[version] for version in sorted(_ALL, key=order)}
"""The library, oldest first: more versions than of the tool."""
_RELEASES = """
    7.60.0 7.61.0 7.61.1 7.62.0 7.63.0 7.64.0 7.64.1 7.65.0 7.65.1 7.65.2 7.65.3 7.66.0 7.67.0 7.68.0 7.69.0 7.69.1 7.70.0 7.71.0
    7.71.1 7.72.0 7.73.0 7.74.0 7.75.0 7.76.0 7.76.1 7.77.0 7.78.0 7.79.0 7.79.1 7.80.0 7.81.0 7.82.0 7.83.0 7.83.1 7.84.0 7.85.0
    7.86.0 7.87.0 7.88.0 7.88.1 8.0.0 8.0.1 8.1.0 8.1.1 8.1.2 8.2.0 8.2.1 8.3.0 8.4.0 8.5.0 8.6.0 8.7.0 8.7.1 8.8.0 8.9.0 8.9.1
    8.10.0 8.10.1 8.11.0 8.11.1 8.12.0 8.12.1 8.13.0 8.14.0 8.14.1 8.15.0 8.16.0 8.17.0 8.18.0 8.19.0 8.20.0 8.21.0 8.22.0 8.23.0
"""
MISSING = tuple(version for version in _RELEASES.split() if version not in LIBCURLS)
"""Releases of curl between the oldest and the newest of `LIBCURLS` that no registry has."""
# Oldest first; the last is the default.
LIBSSH2S: dict[str, Package] = {
    **{holds: Package("libssh2-sys", crate, sha256, f"{holds}_DEV") for holds, (crate, sha256) in _LIBSSH2_CRATES.items()},
    LIBSSH2.holds.removesuffix("_DEV"): LIBSSH2,
}

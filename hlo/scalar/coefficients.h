// Polynomial coefficients of the scalar rules, constant term first; written by tools/coefficients.py.
#ifndef LAMINA_HLO_SCALAR_COEFFICIENTS_H_
#define LAMINA_HLO_SCALAR_COEFFICIENTS_H_

namespace lamina::hlo::scalar::coefficients {

// clang-format off
// (exp(r) - 1 - r) / r^2 for |r| <= ln(2)/2.
inline constexpr double kExp[] = {
    0x1.0000000000000p-1, 0x1.5555555555555p-3, 0x1.5555555555557p-5, 0x1.1111111111111p-7,
    0x1.6c16c16c15a5ap-10, 0x1.a01a01a0196a5p-13, 0x1.a01a01a9ef9afp-16, 0x1.71de3a5aaaf36p-19,
    0x1.27e4d409424fcp-22, 0x1.ae642c71ac0f2p-26, 0x1.1f7f455025eadp-29, 0x1.61bfc9f783648p-33,
};
// the same, to 2^-59 of exp(r) - 1, with 1/2 itself.
inline constexpr double kExpShort[] = {
    0x1.0000000000000p-1, 0x1.5555555555559p-3, 0x1.5555555555548p-5, 0x1.111111110f7d0p-7,
    0x1.6c16c16c1cd49p-10, 0x1.a01a01af8269bp-13, 0x1.a01a0182f0818p-16, 0x1.71ddf92fc64f9p-19,
    0x1.27e52b3fbe69fp-22, 0x1.af5d653f6970cp-26, 0x1.1ef5320f6a8a5p-29,
};
// the same for |r| <= ln(2)/16, to 2^-57 of exp(r).
inline constexpr double kExpEighth[] = {
    0x1.0000000000000p-1, 0x1.5555555555613p-3, 0x1.5555554e62215p-5, 0x1.111111094580fp-7,
    0x1.6c1ba13b43a58p-10, 0x1.a02008fd791e5p-13,
};
// the same, to 2^-49.
inline constexpr double kExpEighthShort[] = {
    0x1.0000000000000p-1, 0x1.55555548f14d9p-3, 0x1.5555554d89a5bp-5, 0x1.1115b8e807294p-7,
    0x1.6c1bdfce443c8p-10,
};
// as kExp, to 2^-44.
inline constexpr double kExpNarrow[] = {
    0x1.fffffffffe028p-2, 0x1.5555555554f8cp-3, 0x1.55555565dead9p-5, 0x1.11111117140a3p-7,
    0x1.6c166b8f94446p-10, 0x1.a019c3324fe13p-13, 0x1.a137426f16cfcp-16, 0x1.72ada50a7cd68p-19,
};
// (sinh(r) - r) / r^3 in r^2, |r| <= ln(2)/2, to 2^-50 of the sine.
inline constexpr double kSinhNarrow[] = {
    0x1.5555555554f8cp-3, 0x1.11111117140a3p-7, 0x1.a019c3324fe13p-13, 0x1.72ada50a7cd68p-19,
};
// (cosh(r) - 1) / r^2 in r^2, to 2^-50 of the cosine.
inline constexpr double kCoshNarrow[] = {
    0x1.0000000000001p-1, 0x1.5555555553d37p-5, 0x1.6c16c1789d1d7p-10, 0x1.a019b8ca26fcfp-16,
    0x1.2891d4ffbb0f9p-22,
};
// kExp, to 2^-31 of exp(r) - 1, with 1/2 itself.
inline constexpr double kExpm1Single[] = {
    0x1.0000000000000p-1, 0x1.555554d64ced3p-3, 0x1.5554f224ff184p-5, 0x1.1111cb21aeeaep-7,
    0x1.6d4110c24e02fp-10, 0x1.9fbdd2c328697p-13,
};
// kExp for |r| <= ln(2)/8, to 2^-35 of exp(r).
inline constexpr double kExpStep[] = {
    0x1.fffffdc5964cep-2, 0x1.5555577204523p-3, 0x1.5573a7bbca30ep-5, 0x1.1108a5ebba7f4p-7,
};
// (2^r - 1) / r for |r| <= 1/8, to 2^-35 of 2^r.
inline constexpr double kExp2Step[] = {
    0x1.62e42fef34594p-1, 0x1.ebfbddc847e3dp-3, 0x1.c6b0944ef3bafp-5, 0x1.3b46e99e61553p-7,
    0x1.5d6ac3858dffep-10,
};
// (log((1+s)/(1-s)) - 2s) / s^3 in s^2, |s| <= 0.1716.
inline constexpr double kLog[] = {
    0x1.5555555555555p-1, 0x1.9999999999a39p-2, 0x1.2492492476a1ap-2, 0x1.c71c7201a55d7p-3,
    0x1.745cf8e4bba1bp-3, 0x1.3b1c3c1c81c8fp-3, 0x1.0fbde0f4ad17bp-3, 0x1.0c0aff044a970p-3,
};
// the same, to 2^-49.
inline constexpr double kLogNarrow[] = {
    0x1.55555555553b6p-1, 0x1.9999999b88f9dp-2, 0x1.24924627dc195p-2, 0x1.c71fcf7df6060p-3,
    0x1.7382687cd8370p-3, 0x1.54710166f7a8cp-3,
};
// (log(1+f) - f) / f^2, |f| <= 9/128, to 2^-30 of the logarithm.
inline constexpr double kLogStep[] = {
    -0x1.00000012f034bp-1, 0x1.5554ef3ff83e1p-2, -0x1.fffe42ebbbf5dp-3, 0x1.9ba0cc37fd041p-3,
    -0x1.57cb2b0c0d94bp-3,
};
// the series of log((1+s)/(1-s)) from s^5 on, over s^5, to 2^-70 of the logarithm, |s| <= 1/27.
inline constexpr double kLogNearTail[] = {
    0x1.9999999999478p-2, 0x1.2492492b52055p-2, 0x1.c71c10387ade4p-3, 0x1.7582c8635feccp-3,
};
// (log(1+f) - f + f^2/2) / f^3, |f| <= 9/128, to 2^-40 of the logarithm.
inline constexpr double kLogCubic[] = {
    0x1.5555557f56e9ap-2, -0x1.00000053deb19p-2, 0x1.99980300dc29ap-3, -0x1.55531ca9dd223p-3,
    0x1.26bdbf411f6fdp-3, -0x1.025ce0e8cb507p-3,
};
// the same, to 2^-60.
inline constexpr double kLogCubicDouble[] = {
    0x1.55555555555bap-2, -0x1.0000000000133p-2, 0x1.999999990b5edp-3, -0x1.555555542e245p-3,
    0x1.24924b2be22a3p-3, -0x1.00000331e0b6dp-3, 0x1.c7160070dbceep-4, -0x1.9991654b1bf19p-4,
    0x1.78feafd6c2b39p-4, -0x1.5a4cd366fe3dfp-4,
};
// (sin(r) - r) / r^3 in r^2, |r| <= pi/4.
inline constexpr double kSin[] = {
    -0x1.5555555555555p-3, 0x1.1111111111110p-7, -0x1.a01a01a019926p-13, 0x1.71de3a545e700p-19,
    -0x1.ae64540f0ba18p-26, 0x1.61217c1864fa1p-33, -0x1.ab161757f0c63p-41,
};
// the same, to 2^-57 of the sine.
inline constexpr double kSinShort[] = {
    -0x1.5555555555555p-3, 0x1.11111111106dcp-7, -0x1.a01a019d8aec6p-13, 0x1.71de368f5fc37p-19,
    -0x1.ae5f2682e6852p-26, 0x1.5dc4e4f595999p-33,
};
// (cos(r) - 1 + r^2/2) / r^4 in r^2.
inline constexpr double kCos[] = {
    0x1.5555555555555p-5, -0x1.6c16c16c16960p-10, 0x1.a01a019f4d0edp-16, -0x1.27e4fa15bd814p-22,
    0x1.1eeb66b683028p-29, -0x1.907c0e63adbb6p-37,
};
// as kSin, to 2^-45.
inline constexpr double kSinNarrow[] = {
    -0x1.5555555555161p-3, 0x1.1111110fd1496p-7, -0x1.a019fd95094bep-13, 0x1.71d9a549ac8fbp-19,
    -0x1.aa262ee715b00p-26,
};
// as kCos, to 2^-50.
inline constexpr double kCosNarrow[] = {
    0x1.5555555555434p-5, -0x1.6c16c16b5fdb7p-10, 0x1.a019ff501e5c1p-16, -0x1.27e25ca05d2bep-22,
    0x1.1c808728603bbp-29,
};
// as kSin, to 2^-34 of the sine, with 1/6 as f32 has it.
inline constexpr double kSinSingle[] = {
    -0x1.5555560000000p-3, 0x1.111175a8a5d31p-7, -0x1.a05b4a58453e7p-13, 0x1.7cb7073a07415p-19,
};
// as kCos, to 2^-33.
inline constexpr double kCosSingle[] = {
    0x1.55554aa317030p-5, -0x1.6c0c80edaa5e5p-10, 0x1.99ff24cdab540p-16,
};
// (sin(r) - r) / r^3 in r^2, |r| <= pi/2, to 2^-41.
inline constexpr double kSinHalfTurn[] = {
    -0x1.55555555549cbp-3, 0x1.1111110fc048dp-7, -0x1.a01a0011bcc57p-13, 0x1.71dd8de2d0e85p-19,
    -0x1.ae20c4d4c2baep-26, 0x1.54e75d15ad864p-33,
};
// (atan(t) - t) / t^3 in t^2, |t| <= tan(pi/8).
inline constexpr double kAtan[] = {
    -0x1.5555555555555p-2, 0x1.9999999999952p-3, -0x1.249249248d739p-3, 0x1.c71c71c2fc236p-4,
    -0x1.745d165c497f3p-4, 0x1.3b1392a9c2d8bp-4, -0x1.110e84aa36d9dp-4, 0x1.e199c62156609p-5,
    -0x1.ac7858539e493p-5, 0x1.74d3a7b43351ap-5, -0x1.1b1992aa413c9p-5, 0x1.0a997ba33c1dbp-6,
};
// (asin(x) - x) / x^3 in x^2, |x| <= 1/2.
inline constexpr double kAsin[] = {
    0x1.5555555555555p-3, 0x1.3333333333389p-4, 0x1.6db6db6dac0eap-5, 0x1.f1c71c7a5e151p-6,
    0x1.6e8ba121b9d5fp-6, 0x1.1c4efd20ebb99p-6, 0x1.c990a42b32b03p-7, 0x1.7b02ef007d23ep-7,
    0x1.3b462d121c5d2p-7, 0x1.31777489dfd29p-7, 0x1.8dcdf11997e0fp-9, 0x1.40c91fa8deb7ep-6,
    -0x1.3bd7e353ddbc2p-6, 0x1.e58a4f278e007p-6,
};
// (erf(x)/x - 2/sqrt(pi)) / x^2 in x^2, |x| <= 0.9.
inline constexpr double kErf[] = {
    -0x1.812746b0379e7p-2, 0x1.ce2f21a042be1p-4, -0x1.b82ce31288a39p-6, 0x1.565bcd0e64059p-8,
    -0x1.c02db3fde67d2p-11, 0x1.f9a3267504d48p-14, -0x1.f4d249ad47c4ep-17, 0x1.b9e51326a1824p-20,
    -0x1.5f5911f2a81efp-23, 0x1.fa8b34bd9d196p-27, -0x1.42cc1550b1aa4p-30, 0x1.260b53952b6e0p-34,
};
// (1 + 2x) exp(x^2) erfc(x) in (x - 3)/(x + 3), 0.49 <= x <= 27.5.
inline constexpr double kErfcx[] = {
    0x1.40c522d7e4987p+0, -0x1.15c084bb9e8f3p-3, -0x1.85a15c58aa613p-5, 0x1.098366a5b46b5p-3,
    -0x1.e88b803a488ffp-4, 0x1.17ca2877f1555p-4, -0x1.8574c40c18288p-6, 0x1.4b884e4368492p-9,
    0x1.ef1bdd8baf1eap-10, -0x1.98db50f8f3348p-11, -0x1.b912992308838p-14, 0x1.065a354b6075ap-13,
    0x1.4c312fea09eecp-18, -0x1.513b3a61b8467p-16, -0x1.89b1b9f3ea7dbp-21, 0x1.d20a9318df6f8p-19,
    0x1.8343fe844efdap-22, -0x1.4adb327f0c8a9p-21, -0x1.3bae6e3642a25p-23, 0x1.b32a352a7710fp-24,
    0x1.9102e904ecc42p-25, -0x1.bb9604a11beb3p-27, -0x1.7c509f1e5c929p-27, 0x1.d72a20e83131ep-31,
    0x1.9990171c42a74p-30,
};
// as kErfcx, 0 <= x <= 10.1, to 2^-41.
inline constexpr double kErfcxNarrow[] = {
    0x1.40c522d7e48c5p+0, -0x1.15c084bbe724ap-3, -0x1.85a15c579282ep-5, 0x1.098366bc1e3c9p-3,
    -0x1.e88b80369bcf6p-4, 0x1.17ca24769d1f8p-4, -0x1.8574cf572ac0dp-6, 0x1.4b8d333dbaa89p-9,
    0x1.ef27e27acec97p-10, -0x1.9933cc04eaa52p-11, -0x1.be18c55042e6fp-14, 0x1.08af05da37063p-13,
    0x1.1c7c6cd067267p-17, -0x1.44a90de7f6bd2p-16, -0x1.2b515bac3ebd5p-18, 0x1.1e8d7cdbaf4b8p-23,
};
// digamma(x) / (x - root) in x - 1.5, 1 <= x <= 2.
inline constexpr double kDigamma[] = {
    0x1.e6f0cbb873616p-1, -0x1.b1cb63005ee96p-2, 0x1.eca189b8e6f6ap-3, -0x1.2feeeb98a7e09p-3,
    0x1.8512e5903980ap-4, -0x1.fb4420299e4adp-5, 0x1.4de9aa1716ab9p-5, -0x1.b9f8b14d7de55p-6,
    0x1.2564719d66216p-6, -0x1.863559b9b5a9bp-7, 0x1.03c0a60ec60f6p-7, -0x1.5a07ef30630edp-8,
    0x1.cd2200e60275fp-9, -0x1.335348f524476p-9, 0x1.99ab8571d0c7cp-10, -0x1.111527f9563e6p-10,
    0x1.6c687ffe8fbb2p-11, -0x1.e5dba769b9f2fp-12, 0x1.405b284dd7da9p-12, -0x1.ab229bd38477bp-13,
    0x1.36ff8bfe72892p-13, -0x1.9ea98c96b5f0fp-14, 0x1.2e07c372d3f07p-15, -0x1.92b4b3cca5effp-16,
    0x1.e33ecd8030584p-15, -0x1.4229d599e0f0bp-15,
};
// (log(x) - 1/(2x) - digamma(x)) x^2 in 1/x^2, x >= 2.
inline constexpr double kDigammaLarge[] = {
    0x1.5555555555555p-4, -0x1.111111110e8c3p-7, 0x1.041040fa6b86dp-8, -0x1.1111099dfc6d5p-8,
    0x1.f079056e69d72p-8, -0x1.59620883833adp-6, 0x1.5309f5fefffe3p-4, -0x1.b2c80991ff42bp-2,
    0x1.49632f858b4b2p+1, -0x1.0604424a846cap+4, 0x1.8a2fd3b9b067ep+6, -0x1.040a62b4d9723p+9,
    0x1.1de11fc1b4eccp+11, -0x1.f7ff999dbc335p+12, 0x1.579a134d5bc52p+14, -0x1.5af6cea6030b9p+15,
    0x1.e6a2bbd79b192p+15, -0x1.a610e5be4ccd9p+15, 0x1.5461b5ca8295bp+14,
};
// as kDigamma, to 2^-38.
inline constexpr double kDigammaNarrow[] = {
    0x1.e6f0cbb873616p-1, -0x1.b1cb6301ea855p-2, 0x1.eca189baf66a6p-3, -0x1.2feee9cc7c487p-3,
    0x1.8512e32ab1f69p-4, -0x1.fb45548260512p-5, 0x1.4dea77a4f2feep-5, -0x1.b9cb6718c99c4p-6,
    0x1.25464086fa351p-6, -0x1.8997b333499cep-7, 0x1.0602302189b10p-7, -0x1.37f358d2542cbp-8,
    0x1.9fb19f53f02d4p-9, -0x1.dad6904ae0090p-9, 0x1.3c8394ae5882dp-9,
};
// as kDigammaLarge, to 2^-38 of digamma.
inline constexpr double kDigammaLargeNarrow[] = {
    0x1.55555555065f5p-4, -0x1.11110ac519702p-7, 0x1.040aca0f8affcp-8, -0x1.101e3bbb5e5a8p-8,
    0x1.da2e14666a5f3p-8, -0x1.08f99b13935c6p-6, 0x1.175e79d5aac31p-5, -0x1.9ce6a69c8d954p-5,
    0x1.2457de7ba493fp-5,
};
// lgamma(2 + z) / z in z - 0.25, -0.51 <= z <= 1.01.
inline constexpr double kLgamma[] = {
    0x1.ff797bba88502p-2, 0x1.2b408cef4c80cp-2, -0x1.bcc9b6fbc7726p-5, 0x1.e14e96ffdd8e8p-7,
    -0x1.3191e510f9bd3p-8, 0x1.a7552044fc46ap-10, -0x1.356ab22ab4419p-11, 0x1.d4c16e967715dp-13,
    -0x1.6c170d4520f82p-14, 0x1.200862869a306p-15, -0x1.ce1ab88f74a56p-17, 0x1.76b8f3ca8f246p-18,
    -0x1.327f7801fac90p-19, 0x1.f8f1aa4c0858dp-21, -0x1.a284a95fb63aap-22, 0x1.5c7f8a08c04dbp-23,
    -0x1.21f2dee2b0102p-24, 0x1.e6ac23d38fd24p-26, -0x1.af2e01d02d3c4p-27, 0x1.6c5744ff505eap-28,
    -0x1.a48bf9f3baf8dp-30, 0x1.639ad4cb092a2p-31, -0x1.9a33918538abbp-31, 0x1.5e3dfbad41dc6p-32,
};
// x (lgamma(x) - (x - 1/2) log(x) + x - log(2 pi)/2) in 1/x^2, x >= 3.
inline constexpr double kStirling[] = {
    0x1.5555555555555p-4, -0x1.6c16c16c1680fp-9, 0x1.a01a019dc9562p-11, -0x1.38137f18d0057p-11,
    0x1.b950dadd18750p-11, -0x1.f683ee6be7564p-10, 0x1.a22c67ede2dedp-8, -0x1.d2fc9a9669d80p-6,
    0x1.376fc01a769e0p-3, -0x1.a915b2f985e05p-1, 0x1.fb39a1b8dec6ep+1, -0x1.ca5c6e269a3e6p+3,
    0x1.0ac00de6479b1p+5, -0x1.254f2f1821524p+5,
};
// as kLgamma, to 2^-39.
inline constexpr double kLgammaNarrow[] = {
    0x1.ff797bba88502p-2, 0x1.2b408cef6155bp-2, -0x1.bcc9b6fc0d515p-5, 0x1.e14e965804342p-7,
    -0x1.3191e4843c13ep-8, 0x1.a75581b0790bfp-10, -0x1.356b03d95ec82p-11, 0x1.d4a8a1bfe94b8p-13,
    -0x1.6c024286bfd84p-14, 0x1.21a3ce502cf6cp-15, -0x1.d0cc76499c486p-17, 0x1.5a9c54448dba1p-18,
    -0x1.1af1079e8a4bdp-19, 0x1.74e951661b246p-20, -0x1.36152d6fe3818p-21,
};
// as kStirling, to 2^-39 of lgamma.
inline constexpr double kStirlingNarrow[] = {
    0x1.5555555531891p-4, -0x1.6c16b625bbb56p-9, 0x1.a0072e6b71c90p-11, -0x1.351d6227847d0p-11,
    0x1.8057a0c51cbd8p-11, -0x1.ac7f900d09267p-11,
};
// erf_inv(y)/y in w - 2.5, w = -log(1 - y^2) < 5.
inline constexpr double kErfInvCentral[] = {
    0x1.805c5cfcedef5p+0, 0x1.f91e8b47bc332p-3, -0x1.11c3ccf583fccp-8, -0x1.4866876636aa3p-10,
    0x1.c9b8392b34813p-13, -0x1.4cd6db31136aep-18, -0x1.cb7b9e68dc51ap-19, 0x1.f3bcf6b20a36ap-22,
    0x1.129bb8c97f855p-26, -0x1.2c4526ac24209p-27, 0x1.00d79ace31a9fp-31,
};
// the same, to 2^-35.
inline constexpr double kErfInvCentralNarrow[] = {
    0x1.805c5cfd043b8p+0, 0x1.f91e8993e00d7p-3, -0x1.11c3c460bbaa9p-8, -0x1.4863cd77abe81p-10,
    0x1.c9b4a8432cb27p-13, -0x1.4f4953321e49bp-18, -0x1.caad4c1e3e33cp-19, 0x1.010dee4262fe4p-21,
    0x1.d98cbaf0d2408p-27, -0x1.766c825a004cep-27, 0x1.c2b5865572ca7p-31, 0x1.1ad437a7cc8b8p-33,
    -0x1.68f6b3af48143p-36, -0x1.3ace6574bd4f9p-42,
};
// erf_inv(y)/y in sqrt(w) - 3, 5 <= w < 16.1.
inline constexpr double kErfInvTailNarrow[] = {
    0x1.6a9efbd669d60p+1, 0x1.006dca7a31c80p+0, 0x1.3582cae75122fp-7, -0x1.f4f1b56801d40p-8,
    0x1.7494fa98c2390p-8, -0x1.d276c9876ce16p-9, 0x1.850920943d24fp-10, -0x1.37f23dd575ea0p-13,
    -0x1.2a6698dbaf8b8p-12, 0x1.af2a7f59a34cap-13, -0x1.691095ff93c88p-15, -0x1.98ea0d5358a28p-16,
    0x1.2fc988dbb0244p-16, -0x1.87ab6d57f241ap-19, -0x1.b749c2e2cea88p-22,
};
// erf_inv(y)/y in sqrt(w) - 4, 5 <= w < 37.
inline constexpr double kErfInvTail[] = {
    0x1.eb7e092c1920dp+1, 0x1.026e2570b79d5p+0, 0x1.4a2dfa3121febp-10, -0x1.c73c625a06a75p-11,
    0x1.520155fdc41adp-12, -0x1.f8e212558da8ep-14, 0x1.c162e1ff34708p-15, -0x1.e1148864d1004p-16,
    0x1.4c51c5f0e0dd3p-16, -0x1.8d2fc0abc0ee6p-17, 0x1.9fba69e2a1768p-19, 0x1.758016f0a8cc3p-21,
    -0x1.33a6d433466ebp-21, 0x1.6d2d1258f6738p-24, 0x1.065c7e083ead4p-29,
};
// Chosen for the rounding of f16 and bf16.
// a first guess of 1/d for 1 <= d <= 2, to 2^-9.
inline constexpr double kInverse[] = {
    0x1.6a09c20000000p+1, -0x1.783c2e0000000p+1, 0x1.54bd800000000p+0, -0x1.c6518a0000000p-3,
};
// the same, to 2^-6.
inline constexpr double kInverseShort[] = {
    0x1.0f83e00000000p+1, -0x1.745ccc0000000p+0, 0x1.4afcb60000000p-2,
};
// exp(r/2) for |r| <= ln(2).
inline constexpr double kExpBf16[] = {
    0x1.0000040000000p+0, 0x1.fffa9c0000000p-2, 0x1.0005e40000000p-3, 0x1.57ef660000000p-6,
    0x1.539fd20000000p-9,
};
// exp(r) for |r| <= ln(2)/2.
inline constexpr double kExpF16[] = {
    0x1.0000000000000p+0, 0x1.ffffd00000000p-1, 0x1.ffff260000000p-2, 0x1.5566d40000000p-3,
    0x1.5740d80000000p-5, 0x1.1052060000000p-7,
};
// 2^(r/2) for |r| <= 1.
inline constexpr double kExp2Bf16[] = {
    0x1.ffffd20000000p-1, 0x1.62e0e00000000p-2, 0x1.ec163a0000000p-5, 0x1.ca0d020000000p-8,
    0x1.3997da0000000p-11,
};
// 2^r for |r| <= 1/2.
inline constexpr double kExp2F16[] = {
    0x1.0000000000000p+0, 0x1.62e42c0000000p-1, 0x1.ebf8f00000000p-3, 0x1.c6b6a20000000p-5,
    0x1.3d0c5c0000000p-7, 0x1.5c09280000000p-10,
};
// (exp(r) - 1) / r for |r| <= ln(2)/2, for f16 and bf16.
inline constexpr double kExpm1Half[] = {
    0x1.0000000000000p+0, 0x1.fffec40000000p-2, 0x1.5558860000000p-3, 0x1.5700580000000p-5,
    0x1.112be00000000p-7,
};
// log(1+f) / f for sqrt(1/2) <= 1+f <= sqrt(2).
inline constexpr double kLogBf16[] = {
    0x1.00004c0000000p+0, -0x1.ffe65a0000000p-2, 0x1.548fe80000000p-2, -0x1.04213e0000000p-2,
    0x1.c3b4fa0000000p-3, -0x1.24b3240000000p-3,
};
// the same.
inline constexpr double kLogF16[] = {
    0x1.0000040000000p+0, -0x1.0000540000000p-1, 0x1.5559fa0000000p-2, -0x1.ff640a0000000p-3,
    0x1.978bbc0000000p-3, -0x1.61349a0000000p-3, 0x1.4c25f60000000p-3, -0x1.9dbb320000000p-4,
};
// (sin(r) - r) / r^3 in r^2, |r| <= pi/2.
inline constexpr double kSinBf16[] = {
    -0x1.55518a0000000p-3, 0x1.107abc0000000p-7, -0x1.858a9e0000000p-13,
};
// the same.
inline constexpr double kSinF16[] = {
    -0x1.55554e0000000p-3, 0x1.110f000000000p-7, -0x1.9f784e0000000p-13, 0x1.5e27b60000000p-19,
};
// the same, where it serves the cosine.
inline constexpr double kCosF16[] = {
    -0x1.55554e0000000p-3, 0x1.110f1e0000000p-7, -0x1.9f784e0000000p-13, 0x1.5e38ac0000000p-19,
};
// exp(-r/2) for |r| <= ln(2).
inline constexpr double kLogisticBf16[] = {
    0x1.0000100000000p+0, -0x1.fff9000000000p-2, 0x1.0004de0000000p-3, -0x1.57e1fc0000000p-6,
    0x1.53b02e0000000p-9,
};
// exp(-r) for |r| <= ln(2)/2.
inline constexpr double kLogisticF16[] = {
    0x1.0000040000000p+0, -0x1.ffffea0000000p-1, 0x1.fffbe60000000p-2, -0x1.5559e00000000p-3,
    0x1.576adc0000000p-5, -0x1.102e1a0000000p-7,
};
// tanh(a)/a in a^2 - 3.53125^2/2, 0 <= a <= 3.53125.
inline constexpr double kTanhBf16[] = {
    0x1.9491760000000p-2, -0x1.e3e2180000000p-6, 0x1.9e0c860000000p-9, -0x1.788b920000000p-12,
    0x1.0b4c9a0000000p-15, -0x1.9de3ae0000000p-19, 0x1.6d11a60000000p-20, -0x1.9792860000000p-23,
    -0x1.e348c60000000p-26, 0x1.193f320000000p-28, 0x1.71581c0000000p-31, -0x1.76cb3a0000000p-34,
};
// (1 - exp(-2r)) / r for |r| <= ln(2)/4.
inline constexpr double kTanhF16[] = {
    0x1.ffffee0000000p+0, -0x1.fffe600000000p+0, 0x1.5556a60000000p+0, -0x1.570b100000000p-1,
    0x1.1110fe0000000p-2,
};
// erf(a)/a in a^2 - 2.25^2/2, 0 <= a <= 2.25.
inline constexpr double kErfBf16[] = {
    0x1.39f1bc0000000p-1, -0x1.a77bae0000000p-4, 0x1.64d3e40000000p-6, -0x1.13de5e0000000p-8,
    0x1.72ab640000000p-11, -0x1.bfa79c0000000p-14, 0x1.1563220000000p-16, -0x1.ee53ac0000000p-20,
};
// erf(a)/a in a^2 - 2.625^2/2, 0 <= a <= 2.625.
inline constexpr double kErfF16[] = {
    0x1.1172ea0000000p-1, -0x1.2814aa0000000p-4, 0x1.ae0c8a0000000p-7, -0x1.2df17e0000000p-9,
    0x1.815bf20000000p-12, -0x1.b92dfc0000000p-15, 0x1.c21f980000000p-18, -0x1.91af060000000p-21,
    0x1.555f8e0000000p-24, -0x1.4857b20000000p-27, 0x1.ac38400000000p-31,
};
// clang-format on

}  // namespace lamina::hlo::scalar::coefficients

#endif  // LAMINA_HLO_SCALAR_COEFFICIENTS_H_

// Tables of sixteen numbers of f32; written by tools/tables.py.
#ifndef LAMINA_HLO_SCALAR_TABLE_VALUES_H_
#define LAMINA_HLO_SCALAR_TABLE_VALUES_H_

#include <cstdint>

namespace lamina::hlo::scalar {

// A function of 0 <= a <= top, cut into pieces by the four digits behind the first of y = a * unit + start,
// 1 <= y < 16: two of its exponent and two of its fraction. The tables hold, for each piece, a center, the
// function's value there, and the coefficients of (f(a) - value) / (a - center). Odd functions of |x| that
// grow to 1 are 1 beyond `top`; about 0, where center and value are 0, their coefficients are those of (f(a)
// - a) / a.
struct Pieces {
  uint64_t first;  // number of the table of centers
  double unit, start, top;
};
inline constexpr uint64_t kPiecesTables = 8;

inline constexpr Pieces kTanhPieces = {0, 0x1.a2ce980000000p+0, 1.08, 0x1.23d6f80000000p+3};
inline constexpr Pieces kErfPieces = {8, 0x1.e613720000000p+1, 1, 0x1.f9997a0000000p+1};
inline constexpr Pieces kScaledErfcPieces = {16, 0x1.7b72580000000p+0, 1, 10.1};
// The number of the first table of each kind.
inline constexpr uint64_t kLogSteps = 24;  // c, -log(c) and the rest by the eighths of 21/32 <= m < 21/16
inline constexpr uint64_t kExpSteps = 27;  // 2^(i/4) and the rest

// clang-format off
inline constexpr float kSingleTables[][16] = {
    {0x1.6e2822p-1F, 0x1.0553e2p+0F, 0x1.538f10p+0F, 0x1.a1cd2ep+0F,
     0x1.0b9536p+1F, 0x1.59d596p+1F, 0x1.a80dccp+1F, 0x1.f64f9cp+1F,
     0x1.35d51ap+2F, 0x1.83fd46p+2F, 0x1.d1cb7ep+2F, 0x1.0a2b24p+3F,
     0x0.0p+0F, 0x0.0p+0F, 0x1.551ffep-2F, 0x1.f1a31ep-2F},
    {0x1.3a5096p-1F, 0x1.8a573ap-1F, 0x1.bc9a9ep-1F, 0x1.da4ab2p-1F,
     0x1.f095d6p-1F, 0x1.fb699ep-1F, 0x1.fea4f2p-1F, 0x1.ff99bap-1F,
     0x1.ffefa6p-1F, 0x1.fffe94p-1F, 0x1.ffffe0p-1F, 0x1.fffffcp-1F,
     0x0.0p+0F, 0x0.0p+0F, 0x1.490acep-2F, 0x1.cdd6e4p-2F},
    {0x1.3f0b1cp-1F, 0x1.a08f64p-2F, 0x1.f7ae9cp-3F, 0x1.228e9ep-3F,
     0x1.e5d846p-5F, 0x1.2447d4p-6F, 0x1.5a9876p-8F, 0x1.98ef42p-10F,
     0x1.05a08cp-12F, 0x1.6c062cp-16F, 0x1.0004c6p-19F, 0x1.fffd60p-23F,
     0x1.a90abcp-28F, 0x1.a90abcp-28F, 0x1.cb2268p-1F, 0x1.97da0cp-1F},
    {-0x1.87b814p-2F, -0x1.40d550p-2F, -0x1.b56186p-3F, -0x1.0d286cp-3F,
     -0x1.d73798p-5F, -0x1.21a960p-6F, -0x1.59ad7cp-8F, -0x1.989d8ap-10F,
     -0x1.0596f8p-12F, -0x1.6c02fap-16F, -0x1.00014ep-19F, -0x1.ffe1dep-23F,
     -0x1.d8bc54p-20F, -0x1.d8bc54p-20F, -0x1.27114cp-2F, -0x1.6fe502p-2F},
    {0x1.bc485ep-6F, 0x1.b100b8p-4F, 0x1.a7d5fep-4F, 0x1.30f860p-4F,
     0x1.271b74p-5F, 0x1.7b40b8p-7F, 0x1.ca67acp-9F, 0x1.0ff280p-10F,
     0x1.5bddb4p-13F, 0x1.e42b86p-17F, 0x1.54850ep-20F, 0x1.558d06p-23F,
     -0x1.554004p-2F, -0x1.554004p-2F, -0x1.a68d1ap-3F, -0x1.a7e76ep-4F},
    {0x1.c62522p-4F, 0x1.793300p-6F, -0x1.31ce62p-6F, -0x1.9c4786p-6F,
     -0x1.025266p-6F, -0x1.6d8c14p-8F, -0x1.c58d96p-10F, -0x1.0f1ab0p-11F,
     -0x1.5bcce8p-14F, -0x1.e45f06p-18F, -0x1.54f5cep-21F, -0x1.58db64p-24F,
     -0x1.6960cap-10F, -0x1.6960cap-10F, 0x1.4c7ce6p-3F, 0x1.54db68p-3F},
    {-0x1.fe1b04p-5F, -0x1.6760cep-5F, -0x1.aa86eep-7F, 0x1.908cc2p-10F,
     0x1.291f96p-8F, 0x1.110d56p-9F, 0x1.67edb0p-11F, 0x1.b5929cp-13F,
     0x1.281564p-15F, 0x1.9cd55cp-19F, 0x1.226df6p-22F, 0x1.11b242p-25F,
     0x1.26db1ep-3F, 0x1.26db1ep-3F, 0x1.2ba9e4p-5F, -0x1.720b5cp-6F},
    {-0x1.e2d742p-8F, 0x1.3530e4p-6F, 0x1.9d999ap-7F, 0x1.063936p-8F,
     -0x1.b78c8ap-12F, -0x1.307db4p-11F, -0x1.c9b446p-13F, -0x1.1fa5bep-14F,
     -0x1.888cc0p-17F, -0x1.11901ap-20F, -0x1.7bf286p-24F, -0x1.091b06p-27F,
     -0x1.3ac0ecp-5F, -0x1.3ac0ecp-5F, -0x1.26b688p-4F, -0x1.b377eap-5F},
    {0x1.510c4ep-2F, 0x1.d7e20ap-2F, 0x1.2f5f52p-1F, 0x1.72c344p-1F,
     0x1.d7e240p-1F, 0x1.2f5e50p+0F, 0x1.72c84ep+0F, 0x1.b62c6cp+0F,
     0x1.0da568p+1F, 0x1.511228p+1F, 0x1.94770ep+1F, 0x1.df38d0p+1F,
     0x0.0p+0F, 0x0.0p+0F, 0x1.5111b8p-3F, 0x1.d7e636p-3F},
    {0x1.6f04ccp-2F, 0x1.f10e7ep-2F, 0x1.3225c4p-1F, 0x1.636f92p-1F,
     0x1.9d790ep-1F, 0x1.cffeb6p-1F, 0x1.eb3f9cp-1F, 0x1.f810fep-1F,
     0x1.fe8532p-1F, 0x1.ffe650p-1F, 0x1.fffef8p-1F, 0x1.fffffcp-1F,
     0x0.0p+0F, 0x0.0p+0F, 0x1.78ef74p-3F, 0x1.059a58p-2F},
    {0x1.033498p+0F, 0x1.d3322cp-1F, 0x1.96ad9ap-1F, 0x1.55f802p-1F,
     0x1.ee23dap-2F, 0x1.1bb5a8p-2F, 0x1.1b9e3ep-3F, 0x1.edc4f4p-5F,
     0x1.b51b5ap-7F, 0x1.1ff6aap-10F, 0x1.b45c02p-15F, 0x1.ef3b50p-21F,
     0x1.06eba8p-3F, 0x1.06eba8p-3F, 0x1.192532p+0F, 0x1.11eda8p+0F},
    {-0x1.5544b0p-2F, -0x1.ae96eap-2F, -0x1.e1eee6p-2F, -0x1.ef4548p-2F,
     -0x1.c76c58p-2F, -0x1.503488p-2F, -0x1.9ac8a0p-3F, -0x1.a69256p-4F,
     -0x1.cc682ep-6F, -0x1.7b25e8p-9F, -0x1.58ad6ep-13F, -0x1.d0c6e8p-19F,
     -0x1.3a6c1cp-25F, -0x1.3a6c1cp-25F, -0x1.722d6cp-3F, -0x1.f8f294p-3F},
    {-0x1.0eb8c8p-2F, -0x1.665c4cp-3F, -0x1.42fd8ap-4F, 0x1.63d1ccp-7F,
     0x1.cc6f30p-4F, 0x1.561360p-3F, 0x1.2e1b52p-3F, 0x1.8fe604p-4F,
     0x1.1ef226p-5F, 0x1.34a1f8p-8F, 0x1.57ce3cp-12F, 0x1.170d3ep-17F,
     -0x1.81266cp-2F, -0x1.81266cp-2F, -0x1.628d48p-2F, -0x1.46745ap-2F},
    {0x1.3c9e5ep-3F, 0x1.71a12cp-3F, 0x1.712230p-3F, 0x1.4220dcp-3F,
     0x1.8b0e9cp-4F, 0x1.574a8ep-7F, -0x1.47656cp-5F, -0x1.92bf7cp-5F,
     -0x1.c3081ap-6F, -0x1.576f58p-8F, -0x1.e6a0e2p-12F, -0x1.cee266p-17F,
     -0x1.ba40eep-14F, -0x1.ba40eep-14F, 0x1.6b7df6p-4F, 0x1.e7130ep-4F},
    {0x1.e2679ap-5F, 0x1.3b4246p-6F, -0x1.36d3dcp-6F, -0x1.8ecf34p-5F,
     -0x1.19989cp-4F, -0x1.c18372p-5F, -0x1.5b72f0p-6F, 0x1.1215e6p-8F,
     0x1.975202p-7F, 0x1.126b82p-8F, 0x1.0f6716p-11F, 0x1.4a0f94p-16F,
     0x1.d4875ep-4F, 0x1.d4875ep-4F, 0x1.915d18p-4F, 0x1.5ab78ep-4F},
    {-0x1.856d5ep-5F, -0x1.a1b31ap-5F, -0x1.6a900ap-5F, -0x1.ee2014p-6F,
     -0x1.2faeb8p-8F, 0x1.32a0fap-6F, 0x1.539f88p-6F, 0x1.5c5c9ep-7F,
     -0x1.62897ap-10F, -0x1.20b0dap-9F, -0x1.aa27d2p-12F, -0x1.f6d8acp-16F,
     -0x1.5859bcp-7F, -0x1.5859bcp-7F, -0x1.da7adep-6F, -0x1.389228p-5F},
    {0x1.afc886p-1F, 0x1.2e3cacp+0F, 0x1.849b06p+0F, 0x1.daf440p+0F,
     0x1.2e433cp+1F, 0x1.849a76p+1F, 0x1.daf918p+1F, 0x1.18a97ep+2F,
     0x1.5971a6p+2F, 0x1.afcaf4p+2F, 0x1.0311a2p+3F, 0x1.2e4304p+3F,
     0x1.5966dap-4F, 0x1.031708p-2F, 0x1.afc908p-2F, 0x1.2e4036p-1F},
    {0x1.e5e522p-2F, 0x1.880838p-2F, 0x1.465070p-2F, 0x1.164c30p-2F,
     0x1.c5db7ap-3F, 0x1.6aa19cp-3F, 0x1.2d20d8p-3F, 0x1.011b64p-3F,
     0x1.a52498p-4F, 0x1.52e0ccp-4F, 0x1.1b5052p-4F, 0x1.e69c30p-5F,
     0x1.d2b444p-1F, 0x1.89459cp-1F, 0x1.50fb70p-1F, 0x1.24f15ap-1F},
    {-0x1.4fec78p-2F, -0x1.cb913cp-3F, -0x1.498d98p-3F, -0x1.eb4298p-4F,
     -0x1.4ed66ep-4F, -0x1.b432d6p-5F, -0x1.307190p-5F, -0x1.bf5182p-6F,
     -0x1.2e3464p-6F, -0x1.897290p-7F, -0x1.13d738p-7F, -0x1.97a376p-8F,
     -0x1.f304dcp-1F, -0x1.7ab882p-1F, -0x1.258af2p-1F, -0x1.cfb970p-2F},
    {0x1.953408p-3F, 0x1.e2fc64p-4F, 0x1.30bd6cp-4F, 0x1.93857ap-5F,
     0x1.d414c2p-6F, 0x1.f8f7fep-7F, 0x1.2b3998p-7F, 0x1.7cd7a0p-8F,
     0x1.ab3b7ap-9F, 0x1.c43a22p-10F, 0x1.0aa534p-10F, 0x1.53a900p-11F,
     0x1.a89fa4p-1F, 0x1.2972ecp-1F, 0x1.aa6928p-2F, 0x1.38222cp-2F},
    {-0x1.b82892p-4F, -0x1.d135ecp-5F, -0x1.0603cep-5F, -0x1.37d348p-6F,
     -0x1.37fc1ep-7F, -0x1.1a49e4p-8F, -0x1.1e7a3ep-9F, -0x1.3db958p-10F,
     -0x1.299ec0p-11F, -0x1.01587cp-12F, -0x1.ffe2c2p-14F, -0x1.198654p-14F,
     -0x1.34ce7ap-1F, -0x1.949cf4p-2F, -0x1.0f8566p-2F, -0x1.749d48p-3F},
    {0x1.b7317ep-5F, 0x1.a0b920p-6F, 0x1.a7791cp-7F, 0x1.c904e0p-8F,
     0x1.8eb254p-9F, 0x1.31bcd8p-10F, 0x1.0ba678p-11F, 0x1.040694p-12F,
     0x1.990310p-14F, 0x1.222370p-15F, 0x1.e7fcc4p-17F, 0x1.d045cep-18F,
     0x1.8e952ep-2F, 0x1.ec85d8p-3F, 0x1.37eb4ep-3F, 0x1.944c9cp-4F},
    {-0x1.9ba3b6p-6F, -0x1.6167f4p-7F, -0x1.464192p-8F, -0x1.413f9ep-9F,
     -0x1.f2d24ap-11F, -0x1.45aa6cp-12F, -0x1.ed9048p-14F, -0x1.a51f76p-15F,
     -0x1.1b8e8cp-16F, -0x1.49108ep-18F, -0x1.d32f2ap-20F, -0x1.800abcp-21F,
     -0x1.d4c9c8p-3F, -0x1.12b10ep-3F, -0x1.4a2498p-4F, -0x1.964a4ap-5F},
    {0x1.669434p-7F, 0x1.192b9cp-8F, 0x1.db8e1cp-10F, 0x1.ae38aep-11F,
     0x1.27a166p-12F, 0x1.4cd56ep-14F, 0x1.b8b7e8p-16F, 0x1.4c6db8p-17F,
     0x1.7b4e94p-19F, 0x1.6c209ep-21F, 0x1.b750f2p-23F, 0x1.397e14p-24F,
     0x1.fa3518p-4F, 0x1.1abcfcp-4F, 0x1.43f7bcp-5F, 0x1.7c4696p-6F},
    {0x1.700000p+0F, 0x1.500000p+0F, 0x1.400000p+0F, 0x1.200000p+0F,
     0x1.100000p+0F, 0x1.000000p+0F, 0x1.c00000p-1F, 0x1.a00000p-1F,
     0x1.700000p+0F, 0x1.500000p+0F, 0x1.400000p+0F, 0x1.200000p+0F,
     0x1.100000p+0F, 0x1.000000p+0F, 0x1.c00000p-1F, 0x1.a00000p-1F},
    {-0x1.739c00p-2F, -0x1.167400p-2F, -0x1.c90000p-3F, -0x1.e27000p-4F,
     -0x1.f0a000p-5F, 0x0.0p+0F, 0x1.117800p-3F, 0x1.a94000p-3F,
     -0x1.739c00p-2F, -0x1.167400p-2F, -0x1.c90000p-3F, -0x1.e27000p-4F,
     -0x1.f0a000p-5F, 0x0.0p+0F, 0x1.117800p-3F, 0x1.a94000p-3F},
    {-0x1.7f6bbep-18F, -0x1.cababap-18F, 0x1.070cacp-20F, -0x1.db8abcp-22F,
     -0x1.86008cp-20F, 0x0.0p+0F, 0x1.d044fcp-20F, -0x1.2c3752p-19F,
     -0x1.7f6bbep-18F, -0x1.cababap-18F, 0x1.070cacp-20F, -0x1.db8abcp-22F,
     -0x1.86008cp-20F, 0x0.0p+0F, 0x1.d044fcp-20F, -0x1.2c3752p-19F},
    {0x1.000000p+0F, 0x1.306fe0p+0F, 0x1.6a09e6p+0F, 0x1.ae89fap+0F,
     0x1.000000p+0F, 0x1.306fe0p+0F, 0x1.6a09e6p+0F, 0x1.ae89fap+0F,
     0x1.000000p+0F, 0x1.306fe0p+0F, 0x1.6a09e6p+0F, 0x1.ae89fap+0F,
     0x1.000000p+0F, 0x1.306fe0p+0F, 0x1.6a09e6p+0F, 0x1.ae89fap+0F},
    {0x0.0p+0F, 0x1.4636e2p-25F, 0x1.9fcef4p-26F, -0x1.a94b14p-26F,
     0x0.0p+0F, 0x1.4636e2p-25F, 0x1.9fcef4p-26F, -0x1.a94b14p-26F,
     0x0.0p+0F, 0x1.4636e2p-25F, 0x1.9fcef4p-26F, -0x1.a94b14p-26F,
     0x0.0p+0F, 0x1.4636e2p-25F, 0x1.9fcef4p-26F, -0x1.a94b14p-26F},
};
// clang-format on

}  // namespace lamina::hlo::scalar

#endif  // LAMINA_HLO_SCALAR_TABLE_VALUES_H_

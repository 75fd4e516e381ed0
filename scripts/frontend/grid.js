// The grid: Tabulator with rows and columns drawn as they scroll into sight, and the modules that an answer needs.
import {
  AccessorModule, ClipboardModule, ExportModule, FormatModule, FrozenColumnsModule, InteractionModule, KeybindingsModule,
  ResizeColumnsModule, SelectRangeModule, SortModule, Tabulator, TooltipModule,
} from "tabulator-tables";

Tabulator.registerModule([
  AccessorModule, ClipboardModule, ExportModule, FormatModule, FrozenColumnsModule, InteractionModule, KeybindingsModule,
  ResizeColumnsModule, SelectRangeModule, SortModule, TooltipModule,
]);
export { Tabulator };

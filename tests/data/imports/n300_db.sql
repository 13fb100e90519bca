BEGIN TRANSACTION;
CREATE TABLE buffer_chunks (
            operation_id int,
            device_id int,
            address int,
            bank_id int,
            core_x int,
            core_y int,
            chunk_address int,
            chunk_size int,
            page_size int,
            num_pages int,
            buffer_type int,
            rank int NOT NULL DEFAULT 0
        );
CREATE TABLE buffers (
            operation_id int,
            device_id int,
            address int,
            max_size_per_bank int,
            buffer_type int,
            buffer_layout int,
            rank int NOT NULL DEFAULT 0
        );
INSERT INTO "buffers" VALUES(1,0,1060928,1408,0,0,0);
INSERT INTO "buffers" VALUES(1,0,1054784,6144,0,0,0);
INSERT INTO "buffers" VALUES(1,0,1462272,2048,1,0,0);
INSERT INTO "buffers" VALUES(1,0,1464320,2048,1,0,0);
INSERT INTO "buffers" VALUES(1,0,1460224,2048,1,0,0);
INSERT INTO "buffers" VALUES(1,0,1048640,6144,0,0,0);
INSERT INTO "buffers" VALUES(2,0,1060928,1408,0,0,0);
INSERT INTO "buffers" VALUES(2,0,1054784,6144,0,0,0);
INSERT INTO "buffers" VALUES(2,0,1456128,4096,1,0,0);
INSERT INTO "buffers" VALUES(2,0,1462272,2048,1,0,0);
INSERT INTO "buffers" VALUES(2,0,1460224,2048,1,0,0);
INSERT INTO "buffers" VALUES(2,0,1048640,6144,0,0,0);
CREATE TABLE captured_graph (
            operation_id int,
            captured_graph text,
            rank int NOT NULL DEFAULT 0
        );
INSERT INTO "captured_graph" VALUES(1,'[{"arguments": [], "connections": [1], "counter": 0, "input_tensors": [], "node_type": "capture_start", "params": {}, "stacking_level": 0, "id": 0}, {"arguments": [], "connections": [2, 24], "counter": 1, "input_tensors": [], "node_type": "function_start", "params": {"inputs": "0", "name": "ttnn.add"}, "stacking_level": 1, "id": 1}, {"arguments": ["operation_attributes_t(BinaryOpType::ADD, SmallVector([]), SmallVector([]), SmallVector([]), std::nullopt, MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::L1,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0), DataType::BFLOAT16, DataType::BFLOAT16, <CoreRangeSet>, std::nullopt, std::nullopt, std::nullopt, SubtileBroadcastType::NONE, 0, 0, 0, 0, 0, 0, 0, Layout::TILE, Layout::TILE, Layout::TILE, std::nullopt, std::nullopt, std::nullopt, std::nullopt, std::nullopt)", "{Tensor(storage=DeviceStorage(),tensor_spec=TensorSpec(logical_shape=Shape([1, 1, 256, 128]),tensor_layout=TensorLayout(dtype=DataType::BFLOAT16,page_config=PageConfig(config=TilePageConfig(tile=Tile(tile_shape={32, 32},face_shape={16, 16},num_faces=4))),memory_config=MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::DRAM,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0),alignment=Alignment([32, 32])))), Tensor(storage=DeviceStorage(),tensor_spec=TensorSpec(logical_shape=Shape([1, 1, 256, 128]),tensor_layout=TensorLayout(dtype=DataType::BFLOAT16,page_config=PageConfig(config=TilePageConfig(tile=Tile(tile_shape={32, 32},face_shape={16, 16},num_faces=4))),memory_config=MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::L1,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0),alignment=Alignment([32, 32]))))}"], "connections": [4, 6, 7, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22], "counter": 2, "input_tensors": [3, 5], "node_type": "function_start", "params": {"inputs": "2", "name": "BinaryNgDeviceOperation", "program_cache_hit": false, "program_factory_index": 0, "program_factory_type": "ttnn::operations::binary_ng::BinaryNgDeviceOperation::ProgramFactory"}, "stacking_level": 2, "id": 2}, {"arguments": [], "connections": [2], "counter": 3, "input_tensors": [], "node_type": "tensor", "params": {"address": 1048640, "buffer_type": 0, "device_id": 0, "device_tensors": "[{\"address\": 1048640, \"device_id\": 0, \"mesh_device_id\": 0}, {\"address\": 1048640, \"device_id\": 1, \"mesh_device_id\": 0}]", "dtype": "DataType::BFLOAT16", "layout": "Layout::TILE", "memory_config": "MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::DRAM,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0)", "shape": "Shape([1, 1, 256, 128])", "size": 65536, "storage_type": "DEVICE", "tensor_id": 1}, "stacking_level": 2, "id": 3}, {"arguments": [], "connections": [3, 30], "counter": 4, "input_tensors": [], "node_type": "buffer", "params": {"buffer_type": 0, "device_id": 0, "layout": "INTERLEAVED", "size": 65536, "type": "DRAM"}, "stacking_level": 2, "id": 4}, {"arguments": [], "connections": [2], "counter": 5, "input_tensors": [], "node_type": "tensor", "params": {"address": 1464320, "buffer_type": 1, "device_id": 0, "device_tensors": "[{\"address\": 1464320, \"device_id\": 0, \"mesh_device_id\": 0}, {\"address\": 1464320, \"device_id\": 1, \"mesh_device_id\": 0}]", "dtype": "DataType::BFLOAT16", "layout": "Layout::TILE", "memory_config": "MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::L1,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0)", "shape": "Shape([1, 1, 256, 128])", "size": 65536, "storage_type": "DEVICE", "tensor_id": 3}, "stacking_level": 2, "id": 5}, {"arguments": [], "connections": [5], "counter": 6, "input_tensors": [], "node_type": "buffer", "params": {"buffer_type": 1, "device_id": 0, "layout": "INTERLEAVED", "size": 65536, "type": "L1"}, "stacking_level": 2, "id": 6}, {"arguments": ["Shape([1, 1, 256, 128])", "DataType::BFLOAT16", "Layout::TILE", "0x5587eb532290", "MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::L1,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0)"], "connections": [8, 9, 10], "counter": 7, "input_tensors": [], "node_type": "function_start", "params": {"inputs": "5", "name": "tt::tt_metal::create_device_tensor"}, "stacking_level": 3, "id": 7}, {"arguments": [], "connections": [11, 23], "counter": 8, "input_tensors": [], "node_type": "buffer", "params": {"buffer_type": 1, "device_id": 0, "layout": "INTERLEAVED", "size": 65536, "type": "L1"}, "stacking_level": 3, "id": 8}, {"arguments": [], "connections": [8], "counter": 9, "input_tensors": [], "node_type": "buffer_allocate", "params": {"address": 1460224, "buffer_type": 1, "device_id": 0, "layout": "INTERLEAVED", "max_size_per_bank": 2048, "num_cores": 0, "page_size": 2048, "size": 65536, "type": "L1"}, "stacking_level": 3, "id": 9}, {"arguments": [], "connections": [11], "counter": 10, "duration_ns": 116638, "input_tensors": [], "node_type": "function_end", "params": {"name": "tt::tt_metal::create_device_tensor"}, "stacking_level": 3, "id": 10}, {"arguments": [], "connections": [], "counter": 11, "input_tensors": [], "node_type": "tensor", "params": {"address": 1460224, "buffer_type": 1, "device_id": 0, "device_tensors": "[{\"address\": 1460224, \"device_id\": 0, \"mesh_device_id\": 0}, {\"address\": 1460224, \"device_id\": 1, \"mesh_device_id\": 0}]", "dtype": "DataType::BFLOAT16", "layout": "Layout::TILE", "memory_config": "MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::L1,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0)", "shape": "Shape([1, 1, 256, 128])", "size": 65536, "storage_type": "DEVICE", "tensor_id": 12}, "stacking_level": 3, "id": 11}, {"arguments": [], "connections": [2], "counter": 12, "input_tensors": [], "node_type": "circular_buffer_deallocate_all", "params": {"device_id": 0}, "stacking_level": 2, "id": 12}, {"arguments": [], "connections": [], "counter": 13, "input_tensors": [], "node_type": "circular_buffer_allocate", "params": {"address": 105824, "core_range_set": "{[0-0 - 7-6]}", "device_id": 0, "globally_allocated": "0", "size": 4096}, "stacking_level": 2, "id": 13}, {"arguments": [], "connections": [], "counter": 14, "input_tensors": [], "node_type": "circular_buffer_allocate", "params": {"address": 105824, "core_range_set": "{[0-0 - 7-6]}", "device_id": 1, "globally_allocated": "0", "size": 4096}, "stacking_level": 2, "id": 14}, {"arguments": [], "connections": [], "counter": 15, "input_tensors": [], "node_type": "circular_buffer_allocate", "params": {"address": 109920, "core_range_set": "{[0-0 - 7-6]}", "device_id": 0, "globally_allocated": "0", "size": 4096}, "stacking_level": 2, "id": 15}, {"arguments": [], "connections": [], "counter": 16, "input_tensors": [], "node_type": "circular_buffer_allocate", "params": {"address": 109920, "core_range_set": "{[0-0 - 7-6]}", "device_id": 1, "globally_allocated": "0", "size": 4096}, "stacking_level": 2, "id": 16}, {"arguments": [], "connections": [], "counter": 17, "input_tensors": [], "node_type": "circular_buffer_allocate", "params": {"address": 114016, "core_range_set": "{[0-0 - 7-6]}", "device_id": 0, "globally_allocated": "0", "size": 4096}, "stacking_level": 2, "id": 17}, {"arguments": [], "connections": [], "counter": 18, "input_tensors": [], "node_type": "circular_buffer_allocate", "params": {"address": 114016, "core_range_set": "{[0-0 - 7-6]}", "device_id": 1, "globally_allocated": "0", "size": 4096}, "stacking_level": 2, "id": 18}, {"arguments": [], "connections": [], "counter": 19, "input_tensors": [], "node_type": "sub_device_manager", "params": {"device_id": 0, "sub_device_manager_id": 0, "sub_devices": "[{\"sub_device_id\":0,\"worker_core_ranges\":[{\"end\":{\"x\":7,\"y\":6},\"start\":{\"x\":0,\"y\":0}}]}]"}, "stacking_level": 2, "id": 19}, {"arguments": [], "connections": [], "counter": 20, "input_tensors": [], "node_type": "program_execution", "params": {"command_queue_id": 0, "device_id": 0, "global_call_count": 1024, "physical_device_id": 0, "runtime_id": 1, "sub_device_id": 0, "sub_device_manager_id": 0, "worker_core_ranges": "[{\"end\":{\"x\":7,\"y\":6},\"start\":{\"x\":0,\"y\":0}}]"}, "stacking_level": 2, "id": 20}, {"arguments": [], "connections": [], "counter": 21, "input_tensors": [], "node_type": "program_execution", "params": {"command_queue_id": 0, "device_id": 0, "global_call_count": 1025, "physical_device_id": 1, "runtime_id": 1, "sub_device_id": 0, "sub_device_manager_id": 0, "worker_core_ranges": "[{\"end\":{\"x\":7,\"y\":6},\"start\":{\"x\":0,\"y\":0}}]"}, "stacking_level": 2, "id": 21}, {"arguments": [], "connections": [23], "counter": 22, "duration_ns": 61576943, "input_tensors": [], "node_type": "function_end", "params": {"name": "BinaryNgDeviceOperation"}, "stacking_level": 2, "id": 22}, {"arguments": [], "connections": [], "counter": 23, "input_tensors": [], "node_type": "tensor", "params": {"address": 1460224, "buffer_type": 1, "device_id": 0, "device_tensors": "[{\"address\": 1460224, \"device_id\": 0, \"mesh_device_id\": 0}, {\"address\": 1460224, \"device_id\": 1, \"mesh_device_id\": 0}]", "dtype": "DataType::BFLOAT16", "layout": "Layout::TILE", "memory_config": "MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::L1,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0)", "shape": "Shape([1, 1, 256, 128])", "size": 65536, "storage_type": "DEVICE", "tensor_id": 12}, "stacking_level": 2, "id": 23}, {"arguments": [], "connections": [25], "counter": 24, "duration_ns": 76765930, "input_tensors": [], "node_type": "function_end", "params": {"name": "ttnn.add"}, "stacking_level": 1, "id": 24}, {"arguments": [], "connections": [], "counter": 25, "input_tensors": [], "node_type": "capture_end", "params": {}, "stacking_level": 0, "id": 25}]',0);
INSERT INTO "captured_graph" VALUES(2,'[{"arguments": [], "connections": [1], "counter": 0, "input_tensors": [], "node_type": "capture_start", "params": {}, "stacking_level": 0, "id": 0}, {"arguments": [], "connections": [2, 16], "counter": 1, "input_tensors": [], "node_type": "function_start", "params": {"inputs": "0", "name": "ttnn.matmul"}, "stacking_level": 1, "id": 1}, {"arguments": ["MatmulParams(<variant>, 1, MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::L1,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0), DataType::BFLOAT16, ComputeKernelConfig(math_fidelity=HiFi2,math_approx_mode=0,fp32_dest_acc_en=0,packer_l1_acc=1,dst_full_sync_en=0,throttle_level=ThrottleLevel::NO_THROTTLE), 0, std::nullopt, std::nullopt, 0, 0, 0, Tile(tile_shape={32, 32},face_shape={16, 16},num_faces=4), std::nullopt, std::nullopt, {}, std::nullopt)", "{Tensor(storage=DeviceStorage(),tensor_spec=TensorSpec(logical_shape=Shape([1, 1, 256, 128]),tensor_layout=TensorLayout(dtype=DataType::BFLOAT16,page_config=PageConfig(config=TilePageConfig(tile=Tile(tile_shape={32, 32},face_shape={16, 16},num_faces=4))),memory_config=MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::DRAM,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0),alignment=Alignment([32, 32])))), Tensor(storage=DeviceStorage(),tensor_spec=TensorSpec(logical_shape=Shape([1, 1, 128, 256]),tensor_layout=TensorLayout(dtype=DataType::BFLOAT16,page_config=PageConfig(config=TilePageConfig(tile=Tile(tile_shape={32, 32},face_shape={16, 16},num_faces=4))),memory_config=MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::DRAM,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0),alignment=Alignment([32, 32]))))}"], "connections": [5, 6, 11, 12, 13, 14], "counter": 2, "input_tensors": [3, 4], "node_type": "function_start", "params": {"inputs": "2", "name": "MatmulDeviceOperation", "program_cache_hit": false, "program_factory_index": 0, "program_factory_type": "ttnn::prim::MatmulMultiCoreProgramFactory"}, "stacking_level": 2, "id": 2}, {"arguments": [], "connections": [2], "counter": 3, "input_tensors": [], "node_type": "tensor", "params": {"address": 1048640, "buffer_type": 0, "device_id": 0, "device_tensors": "[{\"address\": 1048640, \"device_id\": 0, \"mesh_device_id\": 0}, {\"address\": 1048640, \"device_id\": 1, \"mesh_device_id\": 0}]", "dtype": "DataType::BFLOAT16", "layout": "Layout::TILE", "memory_config": "MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::DRAM,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0)", "shape": "Shape([1, 1, 256, 128])", "size": 65536, "storage_type": "DEVICE", "tensor_id": 1}, "stacking_level": 2, "id": 3}, {"arguments": [], "connections": [2], "counter": 4, "input_tensors": [], "node_type": "tensor", "params": {"address": 1054784, "buffer_type": 0, "device_id": 0, "device_tensors": "[{\"address\": 1054784, \"device_id\": 0, \"mesh_device_id\": 0}, {\"address\": 1054784, \"device_id\": 1, \"mesh_device_id\": 0}]", "dtype": "DataType::BFLOAT16", "layout": "Layout::TILE", "memory_config": "MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::DRAM,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0)", "shape": "Shape([1, 1, 128, 256])", "size": 65536, "storage_type": "DEVICE", "tensor_id": 5}, "stacking_level": 2, "id": 4}, {"arguments": [], "connections": [4], "counter": 5, "input_tensors": [], "node_type": "buffer", "params": {"buffer_type": 0, "device_id": 0, "layout": "INTERLEAVED", "size": 65536, "type": "DRAM"}, "stacking_level": 2, "id": 5}, {"arguments": ["Shape([1, 1, 256, 256])", "DataType::BFLOAT16", "Layout::TILE", "0x5587eb532290", "MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::L1,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0)"], "connections": [7, 8, 9], "counter": 6, "input_tensors": [], "node_type": "function_start", "params": {"inputs": "5", "name": "tt::tt_metal::create_device_tensor"}, "stacking_level": 3, "id": 6}, {"arguments": [], "connections": [10, 15], "counter": 7, "input_tensors": [], "node_type": "buffer", "params": {"buffer_type": 1, "device_id": 0, "layout": "INTERLEAVED", "size": 131072, "type": "L1"}, "stacking_level": 3, "id": 7}, {"arguments": [], "connections": [7], "counter": 8, "input_tensors": [], "node_type": "buffer_allocate", "params": {"address": 1456128, "buffer_type": 1, "device_id": 0, "layout": "INTERLEAVED", "max_size_per_bank": 4096, "num_cores": 0, "page_size": 2048, "size": 131072, "type": "L1"}, "stacking_level": 3, "id": 8}, {"arguments": [], "connections": [10], "counter": 9, "duration_ns": 62537, "input_tensors": [], "node_type": "function_end", "params": {"name": "tt::tt_metal::create_device_tensor"}, "stacking_level": 3, "id": 9}, {"arguments": [], "connections": [], "counter": 10, "input_tensors": [], "node_type": "tensor", "params": {"address": 1456128, "buffer_type": 1, "device_id": 0, "device_tensors": "[{\"address\": 1456128, \"device_id\": 0, \"mesh_device_id\": 0}, {\"address\": 1456128, \"device_id\": 1, \"mesh_device_id\": 0}]", "dtype": "DataType::BFLOAT16", "layout": "Layout::TILE", "memory_config": "MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::L1,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0)", "shape": "Shape([1, 1, 256, 256])", "size": 131072, "storage_type": "DEVICE", "tensor_id": 15}, "stacking_level": 3, "id": 10}, {"arguments": [], "connections": [2], "counter": 11, "input_tensors": [], "node_type": "circular_buffer_deallocate_all", "params": {"device_id": 0}, "stacking_level": 2, "id": 11}, {"arguments": [], "connections": [], "counter": 12, "input_tensors": [], "node_type": "program_execution", "params": {"command_queue_id": 0, "device_id": 0, "global_call_count": 2048, "physical_device_id": 0, "runtime_id": 2, "sub_device_id": 0, "sub_device_manager_id": 0, "worker_core_ranges": "[{\"end\":{\"x\":7,\"y\":6},\"start\":{\"x\":0,\"y\":0}}]"}, "stacking_level": 2, "id": 12}, {"arguments": [], "connections": [], "counter": 13, "input_tensors": [], "node_type": "program_execution", "params": {"command_queue_id": 0, "device_id": 0, "global_call_count": 2049, "physical_device_id": 1, "runtime_id": 2, "sub_device_id": 0, "sub_device_manager_id": 0, "worker_core_ranges": "[{\"end\":{\"x\":7,\"y\":6},\"start\":{\"x\":0,\"y\":0}}]"}, "stacking_level": 2, "id": 13}, {"arguments": [], "connections": [15], "counter": 14, "duration_ns": 110869531, "input_tensors": [], "node_type": "function_end", "params": {"name": "MatmulDeviceOperation"}, "stacking_level": 2, "id": 14}, {"arguments": [], "connections": [], "counter": 15, "input_tensors": [], "node_type": "tensor", "params": {"address": 1456128, "buffer_type": 1, "device_id": 0, "device_tensors": "[{\"address\": 1456128, \"device_id\": 0, \"mesh_device_id\": 0}, {\"address\": 1456128, \"device_id\": 1, \"mesh_device_id\": 0}]", "dtype": "DataType::BFLOAT16", "layout": "Layout::TILE", "memory_config": "MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::L1,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0)", "shape": "Shape([1, 1, 256, 256])", "size": 131072, "storage_type": "DEVICE", "tensor_id": 15}, "stacking_level": 2, "id": 15}, {"arguments": [], "connections": [44], "counter": 16, "duration_ns": 112260147, "input_tensors": [], "node_type": "function_end", "params": {"name": "ttnn.matmul"}, "stacking_level": 1, "id": 16}, {"arguments": [], "connections": [], "counter": 17, "input_tensors": [], "node_type": "capture_end", "params": {}, "stacking_level": 0, "id": 17}]',0);
CREATE TABLE device_tensors (
            tensor_id int,
            device_id int,
            address int,
            rank int NOT NULL DEFAULT 0
        );
INSERT INTO "device_tensors" VALUES(1,0,1048640,0);
INSERT INTO "device_tensors" VALUES(3,0,1464320,0);
INSERT INTO "device_tensors" VALUES(12,0,1460224,0);
INSERT INTO "device_tensors" VALUES(5,0,1054784,0);
INSERT INTO "device_tensors" VALUES(15,0,1456128,0);
CREATE TABLE devices (
            device_id int,
            num_y_cores int,
            num_x_cores int,
            num_y_compute_cores int,
            num_x_compute_cores int,
            worker_l1_size int,
            l1_num_banks int,
            l1_bank_size int,
            address_at_first_l1_bank int,
            address_at_first_l1_cb_buffer int,
            num_banks_per_storage_core int,
            num_compute_cores int,
            num_storage_cores int,
            total_l1_memory int,
            total_l1_for_tensors int,
            total_l1_for_interleaved_buffers int,
            total_l1_for_sharded_buffers int,
            cb_limit int,
            rank int NOT NULL DEFAULT 0
        );
INSERT INTO "devices" VALUES(1,8,8,7,8,1499136,56,1360544,0,105824,1,56,0,83951616,0,76190464,76190464,1393312,0);
INSERT INTO "devices" VALUES(0,8,8,7,8,1499136,56,1360544,0,105824,1,56,0,83951616,0,76190464,76190464,1393312,0);
CREATE TABLE edges (
            operation_id int,
            source_unique_id int,
            sink_unique_id int,
            source_output_index int,
            sink_input_index int,
            key int,
            rank int NOT NULL DEFAULT 0
        );
CREATE TABLE errors (
            operation_id int,
            operation_name text,
            error_type text,
            error_message text,
            stack_trace text,
            timestamp text,
            rank int NOT NULL DEFAULT 0
        );
CREATE TABLE execution_sub_devices (
            execution_id int,
            device_id int,
            sub_device_manager_id int,
            sub_device_id int,
            rank int NOT NULL DEFAULT 0,
            UNIQUE(execution_id, device_id, sub_device_manager_id, sub_device_id, rank)
        );
INSERT INTO "execution_sub_devices" VALUES(1024,0,0,0,0);
INSERT INTO "execution_sub_devices" VALUES(1025,0,0,0,0);
INSERT INTO "execution_sub_devices" VALUES(2048,0,0,0,0);
INSERT INTO "execution_sub_devices" VALUES(2049,0,0,0,0);
CREATE TABLE global_tensor_comparison_records (
            tensor_id int,
            golden_tensor_id int,
            matches int,
            desired_pcc float,
            actual_pcc float,
            rank int NOT NULL DEFAULT 0,
            UNIQUE(tensor_id, rank)
        );
CREATE TABLE input_tensors (
            operation_id int,
            input_index int,
            tensor_id int,
            rank int NOT NULL DEFAULT 0
        );
INSERT INTO "input_tensors" VALUES(1,0,1,0);
INSERT INTO "input_tensors" VALUES(1,1,3,0);
INSERT INTO "input_tensors" VALUES(2,0,1,0);
INSERT INTO "input_tensors" VALUES(2,1,5,0);
CREATE TABLE local_tensor_comparison_records (
            tensor_id int,
            golden_tensor_id int,
            matches int,
            desired_pcc float,
            actual_pcc float,
            rank int NOT NULL DEFAULT 0,
            UNIQUE(tensor_id, rank)
        );
CREATE TABLE nodes (
            operation_id int,
            unique_id int,
            node_operation_id int,
            name text,
            rank int NOT NULL DEFAULT 0
        );
INSERT INTO "nodes" VALUES(1,1,1,'ttnn.add',0);
INSERT INTO "nodes" VALUES(2,28,2,'ttnn.matmul',0);
CREATE TABLE operation_arguments (
            operation_id int,
            name text,
            value text,
            rank int NOT NULL DEFAULT 0
        );
INSERT INTO "operation_arguments" VALUES(1,'memory_config','MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::L1,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0)',0);
INSERT INTO "operation_arguments" VALUES(1,'0','ttnn.Tensor(shape=Shape([1, 1, 256, 128]), dtype=DataType.BFLOAT16, layout=Layout.TILE, memory_config=MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::DRAM,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0), storage_type=StorageType.DEVICE, tensor_id=1, is_allocated=True, device_id=0, mesh_shape=MeshShape([1, 2]), mesh_coords=[''MeshCoordinate([0, 0])'', ''MeshCoordinate([0, 1])''], distribution_shape=MeshShape([2]), placements=[''PlacementReplicate()''])',0);
INSERT INTO "operation_arguments" VALUES(1,'1','ttnn.Tensor(shape=Shape([1, 1, 256, 128]), dtype=DataType.BFLOAT16, layout=Layout.TILE, memory_config=MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::L1,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0), storage_type=StorageType.DEVICE, tensor_id=3, is_allocated=True, device_id=0, mesh_shape=MeshShape([1, 2]), mesh_coords=[''MeshCoordinate([0, 0])'', ''MeshCoordinate([0, 1])''], distribution_shape=MeshShape([2]), placements=[''PlacementReplicate()''])',0);
INSERT INTO "operation_arguments" VALUES(2,'memory_config','MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::L1,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0)',0);
INSERT INTO "operation_arguments" VALUES(2,'0','ttnn.Tensor(shape=Shape([1, 1, 256, 128]), dtype=DataType.BFLOAT16, layout=Layout.TILE, memory_config=MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::DRAM,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0), storage_type=StorageType.DEVICE, tensor_id=1, is_allocated=True, device_id=0, mesh_shape=MeshShape([1, 2]), mesh_coords=[''MeshCoordinate([0, 0])'', ''MeshCoordinate([0, 1])''], distribution_shape=MeshShape([2]), placements=[''PlacementReplicate()''])',0);
INSERT INTO "operation_arguments" VALUES(2,'1','ttnn.Tensor(shape=Shape([1, 1, 128, 256]), dtype=DataType.BFLOAT16, layout=Layout.TILE, memory_config=MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::DRAM,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0), storage_type=StorageType.DEVICE, tensor_id=5, is_allocated=True, device_id=0, mesh_shape=MeshShape([1, 2]), mesh_coords=[''MeshCoordinate([0, 0])'', ''MeshCoordinate([0, 1])''], distribution_shape=MeshShape([2]), placements=[''PlacementReplicate()''])',0);
CREATE TABLE operation_executions (
            execution_id int,
            operation_id int,
            device_id int,
            physical_device_id int,
            runtime_id int,
            global_call_count int,
            command_queue_id int,
            rank int NOT NULL DEFAULT 0,
            UNIQUE(execution_id, rank)
        );
INSERT INTO "operation_executions" VALUES(1024,1,0,0,1,1024,0,0);
INSERT INTO "operation_executions" VALUES(1025,1,0,1,1,1025,0,0);
INSERT INTO "operation_executions" VALUES(2048,2,0,0,2,2048,0,0);
INSERT INTO "operation_executions" VALUES(2049,2,0,1,2,2049,0,0);
CREATE TABLE operations (
            operation_id int,
            name text,
            duration float,
            rank int NOT NULL DEFAULT 0,
            UNIQUE(operation_id, rank)
        );
INSERT INTO "operations" VALUES(1,'ttnn.add',0.07676593,0);
INSERT INTO "operations" VALUES(2,'ttnn.matmul',0.112260147,0);
CREATE TABLE output_tensors (
            operation_id int,
            output_index int,
            tensor_id int,
            rank int NOT NULL DEFAULT 0
        );
INSERT INTO "output_tensors" VALUES(1,0,13,0);
INSERT INTO "output_tensors" VALUES(2,0,16,0);
CREATE TABLE report_metadata (
            key text UNIQUE,
            value text
        );
INSERT INTO "report_metadata" VALUES('schema_version','3.5');
INSERT INTO "report_metadata" VALUES('build_type','Release');
INSERT INTO "report_metadata" VALUES('capture_timestamp_ns','1794843636594883240');
INSERT INTO "report_metadata" VALUES('dirty','False');
INSERT INTO "report_metadata" VALUES('git_sha','d80d9482a418cf04ddcbeecf6adb67010d3091e6');
INSERT INTO "report_metadata" VALUES('git_sha_short','d80d9482a4');
INSERT INTO "report_metadata" VALUES('rank','0');
INSERT INTO "report_metadata" VALUES('total_duration_ns','189640235');
INSERT INTO "report_metadata" VALUES('version','0.81.1');
INSERT INTO "report_metadata" VALUES('world_size','1');
INSERT INTO "report_metadata" VALUES('git_url','');
CREATE TABLE source_files (
    id INTEGER PRIMARY KEY,
    path text UNIQUE NOT NULL,
    contents text
);
INSERT INTO "source_files" VALUES(1,'/project/ttnn_import.py','');
CREATE TABLE stack_traces (
    operation_id int,
    stack_trace text,
    source_file_id int REFERENCES source_files(id),
    rank int NOT NULL DEFAULT 0
);
INSERT INTO "stack_traces" VALUES(1,'  File "/project/ttnn_import.py", line 41, in workload
    kept = {"added": ttnn.add(a, b, memory_config=L1)}

  File "/project/ttnn_import.py", line 83, in main
    kept = workload(device, made, chosen.short)

  File "/project/ttnn_import.py", line 97, in <module>
    main()
',1,0);
INSERT INTO "stack_traces" VALUES(2,'  File "/project/ttnn_import.py", line 43, in workload
    kept["product"] = ttnn.matmul(a, made["weights"], memory_config=L1)

  File "/project/ttnn_import.py", line 83, in main
    kept = workload(device, made, chosen.short)

  File "/project/ttnn_import.py", line 97, in <module>
    main()
',1,0);
CREATE TABLE sub_device_managers (
            device_id int,
            sub_device_manager_id int,
            rank int NOT NULL DEFAULT 0,
            UNIQUE(device_id, sub_device_manager_id, rank)
        );
INSERT INTO "sub_device_managers" VALUES(0,0,0);
CREATE TABLE sub_devices (
            device_id int,
            sub_device_manager_id int,
            sub_device_id int,
            worker_core_ranges text,
            rank int NOT NULL DEFAULT 0,
            UNIQUE(device_id, sub_device_manager_id, sub_device_id, rank)
        );
INSERT INTO "sub_devices" VALUES(0,0,0,'[{"end": {"x": 7, "y": 6}, "start": {"x": 0, "y": 0}}]',0);
CREATE TABLE tensor_consumers (
            tensor_id int,
            operation_id int,
            input_index int,
            rank int NOT NULL DEFAULT 0,
            UNIQUE(tensor_id, operation_id, input_index, rank)
        );
INSERT INTO "tensor_consumers" VALUES(1,1,0,0);
INSERT INTO "tensor_consumers" VALUES(3,1,1,0);
INSERT INTO "tensor_consumers" VALUES(1,2,0,0);
INSERT INTO "tensor_consumers" VALUES(5,2,1,0);
CREATE TABLE tensor_lifetime (
            tensor_id int,
            producer_operation_id int,
            last_use_operation_id int,
            deallocate_operation_id int,
            producer_source_file text,
            producer_source_line int,
            last_use_source_file text,
            last_use_source_line int,
            rank int NOT NULL DEFAULT 0,
            UNIQUE(tensor_id, rank)
        );
INSERT INTO "tensor_lifetime" VALUES(1,NULL,2,NULL,NULL,NULL,'/project/ttnn_import.py',43,0);
INSERT INTO "tensor_lifetime" VALUES(3,NULL,1,NULL,NULL,NULL,'/project/ttnn_import.py',41,0);
INSERT INTO "tensor_lifetime" VALUES(5,NULL,2,NULL,NULL,NULL,'/project/ttnn_import.py',43,0);
INSERT INTO "tensor_lifetime" VALUES(12,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0);
INSERT INTO "tensor_lifetime" VALUES(13,1,NULL,NULL,'/project/ttnn_import.py',41,NULL,NULL,0);
INSERT INTO "tensor_lifetime" VALUES(15,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0);
INSERT INTO "tensor_lifetime" VALUES(16,2,NULL,NULL,'/project/ttnn_import.py',43,NULL,NULL,0);
CREATE TABLE tensor_producers (
            tensor_id int,
            operation_id int,
            output_index int,
            rank int NOT NULL DEFAULT 0,
            UNIQUE(tensor_id, operation_id, output_index, rank)
        );
INSERT INTO "tensor_producers" VALUES(13,1,0,0);
INSERT INTO "tensor_producers" VALUES(16,2,0,0);
CREATE TABLE tensors (
            tensor_id int,
            shape text,
            dtype text,
            layout text,
            memory_config text,
            device_id int,
            address int,
            buffer_type int,
            rank int NOT NULL DEFAULT 0,
            storage_type text,
            UNIQUE(tensor_id, rank)
        );
INSERT INTO "tensors" VALUES(1,'Shape([1, 1, 256, 128])','DataType.BFLOAT16','Layout.TILE','MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::DRAM,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0)',0,1048640,0,0,'DEVICE');
INSERT INTO "tensors" VALUES(3,'Shape([1, 1, 256, 128])','DataType.BFLOAT16','Layout.TILE','MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::L1,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0)',0,1464320,1,0,'DEVICE');
INSERT INTO "tensors" VALUES(12,'Shape([1, 1, 256, 128])','DataType.BFLOAT16','Layout.TILE','MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::L1,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0)',0,1460224,1,0,'DEVICE');
INSERT INTO "tensors" VALUES(5,'Shape([1, 1, 128, 256])','DataType.BFLOAT16','Layout.TILE','MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::DRAM,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0)',0,1054784,0,0,'DEVICE');
INSERT INTO "tensors" VALUES(15,'Shape([1, 1, 256, 256])','DataType.BFLOAT16','Layout.TILE','MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::L1,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0)',0,1456128,1,0,'DEVICE');
INSERT INTO "tensors" VALUES(16,'Shape([1, 1, 256, 256])','DataType.BFLOAT16','Layout.TILE','MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::L1,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0)',0,1456128,1,0,'DEVICE');
INSERT INTO "tensors" VALUES(13,'Shape([1, 1, 256, 128])','DataType.BFLOAT16','Layout.TILE','MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::L1,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0,per_core_allocation=0,range_lockstep_allocation=0)',0,1460224,1,0,'DEVICE');
CREATE INDEX idx_stack_traces_source_file_id ON stack_traces (source_file_id);
COMMIT;
